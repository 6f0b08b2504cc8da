"""Fetch as a long poll: how long it waits, and which events end the wait."""

import gc

import pytest
import trio

from broker.handlers.fetch.handler import DelayedFetch
from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.errors import ErrorCode
from tests.support.requests import (
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_request,
    records_of,
)
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

FOREVER_MS = 600_000


async def test_an_append_ends_the_wait(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    await client.send(fetch_request(max_wait_ms=FOREVER_MS), 12)
    await client.expect_silence(0.05)

    async with connected(node.port) as producer:
        await produce(producer, batch(b"value"))

    partition = only(only((await client.receive()).responses).partitions)
    assert [record.value for record in records_of(partition)] == [b"value"]


async def test_it_takes_min_bytes_to_end_the_wait(node: RunningNode, client: WireClient) -> None:
    await create_topic(client, partitions=2)
    await client.send(fetch_request(indexes=[0, 1], max_wait_ms=FOREVER_MS, min_bytes=300), 12)

    async with connected(node.port) as producer:
        await produce(producer, batch(bytes(100)))
        await client.expect_silence(0.05)
        await produce(producer, batch(bytes(100)), index=1)

    sizes = [len(partition.records) for partition in only((await client.receive()).responses).partitions]
    assert sum(sizes) >= 300
    assert all(sizes)


async def test_fetch_is_answered_after_max_wait_with_fewer_records(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"value"))
    began = trio.current_time()

    partition = await fetch(client, max_wait_ms=100, min_bytes=10_000)

    assert trio.current_time() - began >= 0.1
    assert [record.value for record in records_of(partition)] == [b"value"]


async def test_min_bytes_beyond_max_bytes_does_not_wait_for_more_than_may_come(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(bytes(1000)))

    partition = await fetch(client, max_wait_ms=FOREVER_MS, min_bytes=1 << 20, max_bytes=500)

    assert len(partition.records) > 1000


async def test_batch_that_does_not_fit_counts_for_min_bytes(client: WireClient) -> None:
    await create_topic(client)
    for _ in range(2):
        await produce(client, batch(bytes(40_000)))

    for _ in range(3):  # the first request is the handler's, the others are the shortcut's
        partition = await fetch(client, max_wait_ms=FOREVER_MS, min_bytes=70_000, max_bytes=70_000)
        assert 40_000 < len(partition.records) < 41_000


@pytest.mark.parametrize("fields", [{"min_bytes": 0, "max_wait_ms": FOREVER_MS}, {"max_wait_ms": 0}])
async def test_fetch_with_enough_records_is_answered_at_once(client: WireClient, fields: dict[str, int]) -> None:
    await create_topic(client)

    assert (await fetch(client, **fields)).error_code == 0


async def test_an_error_ends_the_wait_at_once(client: WireClient) -> None:
    await create_topic(client)

    assert (await fetch(client, 1, max_wait_ms=FOREVER_MS)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_nothing_to_wait_for_is_answered_at_once(client: WireClient) -> None:
    partition = await fetch(client, topic="unknown", max_wait_ms=FOREVER_MS)

    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_unknown_partition_does_not_keep_others_from_waiting(client: WireClient) -> None:
    """Otherwise a client that fetches a deleted topic would repeat its request without a pause."""
    await create_topic(client)
    request = fetch_request(max_wait_ms=100)
    request.topics.append(FetchTopic(topic="unknown", partitions=[FetchPartition(partition=0)]))
    began = trio.current_time()

    response = await client.call(request, 12)

    assert trio.current_time() - began >= 0.1
    codes = {topic.topic: only(topic.partitions).error_code for topic in response.responses}
    assert codes == {"topic": 0, "unknown": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [12, 13])
async def test_the_deletion_of_a_topic_ends_the_wait(node: RunningNode, client: WireClient, version: int) -> None:
    ids = {name: await create_topic(client, name) for name in ("stays", "goes")}
    partition = FetchPartition(partition=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic=name, topic_id=topic_id, partitions=[partition]) for name, topic_id in ids.items()]
    request = FetchRequest(topics=topics, max_wait_ms=FOREVER_MS, min_bytes=1, session_epoch=-1)
    await client.send(request, version)
    await client.expect_silence(0.05)

    async with connected(node.port) as admin:
        await admin.call(DeleteTopicsRequest(topic_names=["goes"], timeout_ms=1_000), 4)

    response = await client.receive()
    codes = [only(topic.partitions).error_code for topic in response.responses]
    gone = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [0, gone]


async def test_request_after_a_waiting_fetch_is_handled_at_once_and_answered_after_it(client: WireClient) -> None:
    await create_topic(client)
    await client.send(fetch_request(max_wait_ms=FOREVER_MS), 12)
    await client.expect_silence(0.05)

    # The records for which the Fetch waits arrive later over the same connection.
    await client.send(produce_request(batch(b"value")), 9)

    fetched, produced = await client.receive(), await client.receive()
    assert only(records_of(only(only(fetched.responses).partitions))).value == b"value"
    assert only(only(produced.responses).partition_responses).error_code == 0


@pytest.mark.usefixtures("few_objects")
async def test_waiting_fetch_is_dropped_with_its_connection(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)
    async with connected(node.port) as leaver:
        await leaver.send(fetch_request(max_wait_ms=FOREVER_MS), 12)
        await leaver.expect_silence(0.05)
        assert waiting_fetches() == 1

    with trio.fail_after(60):
        while waiting_fetches():
            # Each look holds the node's loop: leave it some time.
            await trio.sleep(0.1)


def waiting_fetches() -> int:
    """The number of instances in memory, wherever they are referenced."""
    gc.collect()
    return sum(isinstance(thing, DelayedFetch) for thing in gc.get_objects())
