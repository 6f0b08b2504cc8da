"""Repeated requests take a shorter path through the node, and must get the same responses there."""

from typing import Any

import pytest

from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, fetch, produce, produce_request, records_of
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

TOPIC = 2
REPEATS = 4  # the first request is learned, the others take the shortcut


def produce_to(topic: str, topic_id: bytes, records: bytes, index: int = 0, acks: int = -1) -> ProduceRequest:
    """For all versions: by name or by id."""
    data = PartitionProduceData(index=index, records=records)
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)


def fetch_from(topic: str, topic_id: bytes, offset: int, *, epoch: int = -1, **fields: Any) -> FetchRequest:
    partition = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    settings = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **fields}
    return FetchRequest(topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])], **settings)


async def set_config(client: WireClient, name: str, value: str) -> None:
    configs = [AlterableConfig(name=name, config_operation=0, value=value)]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="topic", configs=configs)
    answer = only((await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses)
    assert answer.error_code == 0


def first_offset(response: Any) -> int:
    """The offset of the first record in a response about one partition."""
    return records_of(only(only(response.responses).partitions))[0].offset


@pytest.mark.parametrize("version", range(3, 14))
async def test_repeated_produce_requests(client: WireClient, version: int) -> None:
    topic_id = await create_topic(client, partitions=2)

    for repeat in range(REPEATS):
        for index in (0, 1):
            for size in (10, 200, 20_000):  # for each possible number of bytes of a length
                request = produce_to("topic", topic_id, batch(b"%d" % repeat * size), index)
                topic = only((await client.call(request, version)).responses)
                answer = only(topic.partition_responses)
                assert (topic.name, topic.topic_id) == (("", topic_id) if version >= 13 else ("topic", bytes(16)))
                assert (answer.index, answer.error_code, answer.log_append_time_ms) == (index, 0, -1)
                assert answer.base_offset == 3 * repeat + (10, 200, 20_000).index(size)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
async def test_a_repeated_produce_request_that_fails(client: WireClient, version: int) -> None:
    topic_id = await create_topic(client)
    good = batch(b"value")
    for _ in range(REPEATS):
        await client.call(produce_to("topic", topic_id, good), version)

    answers = []
    for records in (good[:-1] + b"\xff", b"", good + good, good):
        request = produce_to("topic", topic_id, records)
        answers.append(only(only((await client.call(request, version)).responses).partition_responses))

    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.INVALID_RECORD, -1),
        (ErrorCode.INVALID_RECORD, -1),
        (0, REPEATS),
    ]


async def test_a_repeated_produce_request_to_a_topic_made_anew(client: WireClient) -> None:
    old_id = await create_topic(client)
    for _ in range(REPEATS):
        await client.call(produce_to("topic", old_id, batch(b"value")), 12)
        await client.call(produce_to("", old_id, batch(b"value")), 13)
    await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)

    gone = await produce(client, batch(b"value"))
    new_id = await create_topic(client)
    by_name = await client.call(produce_to("topic", new_id, batch(b"value")), 12)
    by_old_id = await client.call(produce_to("", old_id, batch(b"value")), 13)

    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(only(by_name.responses).partition_responses).base_offset == 0
    assert only(only(by_old_id.responses).partition_responses).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_repeated_produce_request_hears_of_new_configs(client: WireClient) -> None:
    await create_topic(client)
    for _ in range(REPEATS):
        assert (await produce(client, batch(b"value"))).log_append_time_ms == -1

    await set_config(client, "message.timestamp.type", "LogAppendTime")
    assert (await produce(client, batch(b"value"))).log_append_time_ms > 0
    await set_config(client, "max.message.bytes", "10")
    assert (await produce(client, batch(b"value"))).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_repeated_retry_is_answered_with_its_first_offset(client: WireClient) -> None:
    await create_topic(client)
    records = batch(b"value", producer_id=7, producer_epoch=0, base_sequence=0)

    assert [(await produce(client, records)).base_offset for _ in range(REPEATS)] == [0] * REPEATS
    assert (await fetch(client)).high_watermark == 1


async def test_repeated_produce_requests_without_an_answer(node: RunningNode, client: WireClient) -> None:
    await create_topic(client)

    for _ in range(REPEATS):
        await client.send_unanswered(produce_request(batch(b"value"), acks=0), 9)
    assert (await fetch(client)).high_watermark == REPEATS

    async with connected(node.port) as other:
        for _ in range(REPEATS):
            await other.send_unanswered(produce_request(batch(b"value"), acks=0), 9)
        await other.send_unanswered(produce_request(batch(b"value")[:-1] + b"\xff", acks=0), 9)
        await other.expect_close()
    assert (await fetch(client)).high_watermark == 2 * REPEATS


@pytest.mark.parametrize("version", range(4, 19))
async def test_repeated_fetch_requests(client: WireClient, version: int) -> None:
    topic_id = await create_topic(client)
    sizes = (10, 200, 20_000, 300_000)
    for size in sizes:
        await produce(client, batch(bytes(size)))

    for _ in range(REPEATS):
        for offset, size in enumerate(sizes):
            response = await client.call(fetch_from("topic", topic_id, offset, max_bytes=1), version)
            topic = only(response.responses)
            partition = only(topic.partitions)
            assert (topic.topic, topic.topic_id) == (("", topic_id) if version >= 13 else ("topic", bytes(16)))
            record = only(records_of(partition))
            assert (record.offset, len(record.value or b"")) == (offset, size)
            assert (partition.high_watermark, partition.last_stable_offset) == (4, 4)
            assert partition.aborted_transactions is None


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("version", [11, 12, 13])
async def test_fetch_requests_for_topics_of_many_lengths_take_turns(
    client: WireClient, version: int, epoch: int
) -> None:
    """The offset is then at a different position in each, with zeros around it."""
    names = ["t" * length for length in range(1, 10)]
    ids = {name: await create_topic(client, name) for name in names}
    for name in names:
        for _ in range(3):
            await produce(client, batch(*[b"v"] * 128), topic=name)

    for offset in (0, 128, 256, 0, 256, 128):
        for name in (*names, *reversed(names)):
            request = fetch_from(name, ids[name], offset, epoch=epoch, max_bytes=1)
            response = await client.call(request, version)
            assert first_offset(response) == offset, name


@pytest.mark.parametrize("version", [7, 12, 13])
async def test_a_repeated_fetch_request_that_fails(client: WireClient, version: int) -> None:
    topic_id = await create_topic(client)
    await produce(client, batch(b"value"))
    for _ in range(REPEATS):
        assert first_offset(await client.call(fetch_from("topic", topic_id, 0), version)) == 0

    beyond = await client.call(fetch_from("topic", topic_id, 2), version)
    await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)
    gone = await client.call(fetch_from("topic", topic_id, 0), version)

    assert only(only(beyond.responses).partitions).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(only(gone.responses).partitions).error_code == unknown


async def test_a_repeated_fetch_request_waits_where_it_has_to(node: RunningNode, client: WireClient) -> None:
    topic_id = await create_topic(client)
    await produce(client, batch(b"value"))
    for _ in range(REPEATS):
        await client.call(fetch_from("topic", topic_id, 0, max_wait_ms=600_000), 12)

    await client.send(fetch_from("topic", topic_id, 1, max_wait_ms=600_000), 12)
    await client.expect_silence(0.05)
    async with connected(node.port) as producer:
        await produce(producer, batch(b"value"))
    assert first_offset(await client.receive()) == 1


async def test_a_repeated_fetch_request_of_an_old_client_is_not_given_zstd(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"value"))
    for _ in range(REPEATS):
        assert (await fetch(client, version=9)).error_code == 0

    await set_config(client, "compression.type", "zstd")

    assert (await fetch(client, version=9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_repeated_requests_in_one_write(client: WireClient) -> None:
    topic_id = await create_topic(client)
    pairs = [
        ((produce_request(batch(b"%d" % number)), 9), (fetch_from("topic", topic_id, number), 12))
        for number in range(8)
    ]

    await client.pipeline(*(request for pair in pairs for request in pair))

    for number in range(8):
        produced, fetched = await client.receive(), await client.receive()
        assert only(only(produced.responses).partition_responses).base_offset == number
        assert only(records_of(only(only(fetched.responses).partitions))).value == b"%d" % number
