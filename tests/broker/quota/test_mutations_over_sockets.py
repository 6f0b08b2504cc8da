"""The quota on changes of metadata, from AlterClientQuotas to the responses of a broker (KIP-599)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from tests.broker.quota.test_quotas_over_sockets import set_quota
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

LIMITED: dict[str, str | None] = {"client-id": "limited"}
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
async def limiting_node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """The burst is what a quota allows in one second."""
    async with running_node(tmp_path, controller_quota_window_num=1) as node:
        yield node


def to_create(*names: str, partitions: int = 1, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=5_000, validate_only=validate_only)


async def codes(client: WireClient, *names: str, partitions: int = 1, version: int = 7) -> list[ErrorCode]:
    response = await client.call(to_create(*names, partitions=partitions), version)
    return [ErrorCode(topic.error_code) for topic in response.topics]


async def test_topics_beyond_a_strict_quota_are_refused_until_the_bucket_refills(limiting_node: RunningNode) -> None:
    await set_quota(limiting_node, LIMITED, controller_mutation_rate=4)
    async with connected(limiting_node.port, "limited") as client, connected(limiting_node.port, "other") as other:
        request = to_create("a", "b", "c", partitions=3)
        sent = trio.current_time()
        response = await client.call(request, 7)
        elapsed_ms = (trio.current_time() - sent) * 1000
        assert [topic.error_code for topic in response.topics] == [0, 0, EXCEEDED]
        assert response.topics[2].error_message == "The throttling quota has been exceeded."
        assert 499 - elapsed_ms <= response.throttle_time_ms <= 500, "-2 tokens refill in half a second"

        assert await codes(other, "d", partitions=50) == [ErrorCode.NONE]
        begun = trio.current_time()
        assert await codes(client, "c") == [ErrorCode.NONE], "muted until the bucket is not exhausted"
        assert trio.current_time() - begun < 3


async def test_topics_of_earlier_versions_are_created_and_their_client_is_muted(limiting_node: RunningNode) -> None:
    await set_quota(limiting_node, LIMITED, controller_mutation_rate=4)
    async with connected(limiting_node.port, "limited") as client:
        begun = trio.current_time()
        response = await client.call(to_create("a", "b", partitions=3), 5)
        elapsed_ms = (trio.current_time() - begun) * 1000
        assert [topic.error_code for topic in response.topics] == [0, 0]
        assert 499 - elapsed_ms <= response.throttle_time_ms <= 500
        await client.call(MetadataRequest(topics=[]), 9)
        assert trio.current_time() - begun >= 0.3


async def test_growth_and_deletion_are_charged_by_partitions(limiting_node: RunningNode) -> None:
    async with connected(limiting_node.port) as client:
        assert await codes(client, "a", "b") == [0, 0]
    await set_quota(limiting_node, LIMITED, controller_mutation_rate=4)
    async with connected(limiting_node.port, "limited") as client:
        grown = await client.call(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=6, assignments=None)], timeout_ms=5_000
            ),
            3,
        )
        assert (only(grown.results).error_code, grown.throttle_time_ms) == (0, 0)
        deleted = await client.call(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=5_000),
            6,
        )
        assert only(deleted.responses).error_code == EXCEEDED
        assert deleted.throttle_time_ms > 0


async def test_validation_alone_is_charged_too_and_errors_are_not(limiting_node: RunningNode) -> None:
    """As in Kafka: what a request would change is charged before it is known whether it changes anything."""
    await set_quota(limiting_node, LIMITED, controller_mutation_rate=1)
    async with connected(limiting_node.port, "limited") as client:
        for _ in range(3):
            assert await codes(client, "a b", partitions=5) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        response = await client.call(to_create("a", partitions=3, validate_only=True), 7)
        assert only(response.topics).error_code == 0
        assert await codes(client, "a") == [EXCEEDED]
