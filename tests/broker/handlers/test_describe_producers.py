"""DescribeProducers (KIP-664): the idempotent producers that a partition's replicas know."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_cluster import WITHIN_S, running_cluster
from tests.support.wire_client import WireClient, connected, only


async def described(client: WireClient, name: str = "topic", index: int = 0) -> Any:
    request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[index])])
    return only(only((await client.call(request, 0)).topics).partitions)


async def test_idempotent_producers_are_described_and_others_are_not(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"plain"))
    assert (await described(client)).active_producers == []

    for base_sequence in (0, 2):
        records = batch(b"a", b"b", producer_id=7, producer_epoch=1, base_sequence=base_sequence, timestamp=1234)
        await produce(client, records)
    await produce(client, batch(b"c", producer_id=8, producer_epoch=0, base_sequence=0, timestamp=99))

    answer = await described(client)
    assert (answer.partition_index, answer.error_code, answer.error_message) == (0, 0, None)
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in answer.active_producers
    ] == [(7, 1, 3, 1234), (8, 0, 0, 99)]
    assert {(each.coordinator_epoch, each.current_txn_start_offset) for each in answer.active_producers} == {(-1, -1)}


@pytest.mark.parametrize(
    ("name", "index", "code"),
    [
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("topic", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("not/valid", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_partitions_that_do_not_exist_have_errors(
    client: WireClient, name: str, index: int, code: ErrorCode
) -> None:
    await create_topic(client)

    answer = await described(client, name, index)

    assert (answer.error_code, answer.active_producers) == (code, [])
    assert (answer.error_message is not None) == (name != "topic")  # as in Kafka: not for a partition


async def test_partitions_that_are_named_twice_are_answered_once(client: WireClient) -> None:
    await create_topic(client)
    topic = TopicRequest(name="topic", partition_indexes=[0, 0])

    response = await client.call(DescribeProducersRequest(topics=[topic, topic]), 0)

    assert [each.partition_index for each in only(response.topics).partitions] == [0]


async def test_brokers_without_a_replica_say_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        first, second, third = list(cluster.nodes.values())
        async with connected(first.port) as client:
            await create_topic(client, replicas=[1])
            records = batch(b"a", producer_id=7, producer_epoch=1, base_sequence=0)
            with trio.fail_after(WITHIN_S):
                while (await produce(client, records)).error_code:
                    await trio.sleep(0.005)
            assert only((await described(client)).active_producers).producer_id == 7
        await cluster.until_images_match()
        for other in (second, third):
            async with connected(other.port) as client:
                assert (await described(client)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
