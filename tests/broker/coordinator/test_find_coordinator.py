"""FindCoordinator, single and batched (KIP-699), and the internal topic that it creates."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.coordinator.internal_topics import SHARE_GROUP_STATE
from broker.coordinator.runtime.java_hash import java_hash
from broker.coordinator.runtime.runtime import CoordinatorKeyType
from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid
from tests.support.running_cluster import WITHIN_S, running_cluster
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected, only

GROUP, TRANSACTION, SHARE = CoordinatorKeyType
OFFSETS = "__consumer_offsets"


def request(*keys: str, version: int, key_type: int = GROUP) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


async def find(client: WireClient, *keys: str, version: int = 6, key_type: int = GROUP) -> list[Any]:
    """The response for each key, in the format of the version."""
    response = await client.call(request(*keys, version=version, key_type=key_type), version)
    return [response] if version < 4 else response.coordinators


async def offsets_topic(client: WireClient) -> Any:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)], allow_auto_topic_creation=False)
    return only((await client.call(asked, 12)).topics)


@pytest.mark.parametrize("version", range(7))
async def test_first_request_creates_the_topic(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, offsets_topic_num_partitions=7) as running, connected(running.port) as client:
        found = only(await find(client, "group", version=version))
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.NONE, 1, running.port)
        topic = await offsets_topic(client)
        assert (topic.error_code, len(topic.partitions), topic.is_internal) == (ErrorCode.NONE, 7, True)


async def test_topic_has_the_configs_of_coordinators(tmp_path: Path) -> None:
    changed = {"offsets_topic_segment_bytes": 1234567}
    async with running_node(tmp_path, **changed) as running, connected(running.port) as client:
        await find(client, "group")
        resource = DescribeConfigsResource(resource_type=2, resource_name=OFFSETS, configuration_keys=None)
        described = only((await client.call(DescribeConfigsRequest(resources=[resource]), 4)).results)
        values = {config.name: config.value for config in described.configs}
        assert values["cleanup.policy"] == "compact"
        assert values["segment.bytes"] == "1234567"
        assert values["compression.type"] == "producer"


async def test_coordinator_serves_at_once_after_find_coordinator(tmp_path: Path) -> None:
    async with running_node(tmp_path) as running, connected(running.port) as client:
        groups = [f"group-{number}" for number in range(200)]
        found = await find(client, *groups)
        assert [each.error_code for each in found] == [ErrorCode.NONE] * len(groups)
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group) for group in groups])
        told = (await client.call(asked, 9)).groups
        assert {each.error_code for each in told} <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


async def test_each_of_many_keys_has_a_response(tmp_path: Path) -> None:
    async with running_node(tmp_path) as running, connected(running.port) as client:
        found = await find(client, "a", "b", "")
        assert [each.key for each in found] == ["a", "b", ""]
        assert {each.error_code for each in found} == {ErrorCode.NONE}


@pytest.mark.parametrize("version", [1, 6])
async def test_transaction_coordinator_is_found_and_its_topic_created(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path) as running, connected(running.port) as client:
        found = only(await find(client, "id", version=version, key_type=TRANSACTION))
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.NONE, 1, running.port)
        assert (await offsets_topic(client)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_share_coordinator_of_a_share_partition_is_found_kip_932(tmp_path: Path) -> None:
    topic_id = encode_uuid(bytes(range(16)))
    invalid = ["", "group", f"group:{topic_id}", f" :{topic_id}:0", "group:topic:0", f"group:{topic_id}:x"]
    async with running_node(tmp_path) as running, connected(running.port) as client:
        for key, version in [*((key, 6) for key in invalid), (f"group:{topic_id}:0", 5)]:
            found = only(await find(client, key, version=version, key_type=SHARE))
            assert found.error_code == ErrorCode.INVALID_REQUEST
        assert running.node.loader is not None
        assert SHARE_GROUP_STATE not in running.node.loader.image.topics.by_name
        # A group id may have colons.
        found = only(await find(client, f"a:b:{topic_id}:0", version=6, key_type=SHARE))
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.NONE, 1, running.port)


async def test_topic_that_cannot_be_created_is_a_retriable_error(tmp_path: Path) -> None:
    async with running_node(tmp_path, offsets_topic_replication_factor=3) as running:
        async with connected(running.port) as client:
            found = only(await find(client, "group"))
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        (told,) = running.traced.of("coordinator_topic_not_created")
        assert told["topic"] == "__consumer_offsets"
        assert str(told["reason"]).startswith("offsets.topic.replication.factor is 3, and 1 broker is there.")


async def test_every_broker_returns_the_leader_of_the_groups_partition(tmp_path: Path) -> None:
    overrides = {"offsets.topic.num.partitions": "6"}
    async with running_cluster(tmp_path, overrides=overrides) as cluster:
        groups = [f"group-{at}" for at in range(12)]
        answers = []
        for node in cluster.nodes.values():
            async with connected(node.port) as client:
                found = await find(client, *groups)
                with trio.fail_after(WITHIN_S):
                    while any(each.error_code for each in found):
                        await trio.sleep(0.005)
                        found = await find(client, *groups)
                leaders = {each.partition_index: each.leader_id for each in (await offsets_topic(client)).partitions}
                answers.append([each.node_id for each in found])
        assert answers == [[leaders[java_hash(group) % 6] for group in groups]] * 3
        assert set(answers[0]) == {1, 2, 3}


async def test_groups_belong_to_partitions_that_were_added_to_the_topic(tmp_path: Path) -> None:
    async with running_node(tmp_path, offsets_topic_num_partitions=2) as running, connected(running.port) as client:
        assert running.node.broker is not None
        runtime = running.node.broker.coordination.services().groups.runtime
        groups = [f"group-{at}" for at in range(12)]
        assert [runtime.partition_for(group) for group in groups] == [java_hash(group) % 2 for group in groups]
        await find(client, "group")
        growth = CreatePartitionsTopic(name=OFFSETS, count=5, assignments=None)
        grown = await client.call(CreatePartitionsRequest(topics=[growth], timeout_ms=1_000), 3)
        assert only(grown.results).error_code == ErrorCode.NONE
        with trio.fail_after(WITHIN_S):
            while len((await offsets_topic(client)).partitions) < 5:
                await trio.sleep(0.005)
        assert [runtime.partition_for(group) for group in groups] == [java_hash(group) % 5 for group in groups]
