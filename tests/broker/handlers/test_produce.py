"""Produce: appended batches, errors and their messages, and the time of the response."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression, Record, TimestampType, encode_batch, read_header
from tests.support.requests import (
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_request,
    read_values,
    records_of,
)
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
MAGIC_POSITION = 16


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node whose clock stands still, so that timestamps are known."""
    async with running_node(tmp_path, wall=lambda: NOW_MS / 1000) as running:
        yield running
        assert not running.traced.of("handler_failed")


def by_id(topic_id: bytes, records: bytes, index: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
    )


def without_crc(records: bytes) -> bytes:
    """The batch with a flipped bit in the last record."""
    return records[:-1] + bytes([records[-1] ^ 1])


def with_magic(records: bytes, magic: int) -> bytes:
    return records[:MAGIC_POSITION] + bytes([magic]) + records[MAGIC_POSITION + 1 :]


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
async def test_a_batch_is_appended_and_answered_with_its_offset(client: WireClient, version: int, acks: int) -> None:
    await create_topic(client)
    await produce(client, batch(b"before", b"it"))

    answer = await produce(client, batch(b"value"), version, acks=acks)

    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 2, -1)
    assert await read_values(client) == [b"before", b"it", b"value"]
    if version >= 5:
        assert answer.log_start_offset == 0
    if version >= 8:
        assert (answer.record_errors, answer.error_message) == ([], None)


async def test_a_batch_may_be_appended_by_topic_id(client: WireClient) -> None:
    topic_id = await create_topic(client)

    topic = only((await client.call(by_id(topic_id, batch(b"value")), 13)).responses)

    assert topic.topic_id == topic_id
    assert only(topic.partition_responses).error_code == 0
    assert await read_values(client) == [b"value"]


@pytest.mark.parametrize("version", [3, 9, 12])
async def test_acks_0_appends_without_an_answer(client: WireClient, version: int) -> None:
    await create_topic(client)

    await client.send_unanswered(produce_request(batch(b"value"), acks=0), version)

    assert await read_values(client) == [b"value"]


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_no_other_acks_are_known(client: WireClient, acks: int) -> None:
    await create_topic(client)

    answer = await produce(client, batch(b"value"), acks=acks)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert await read_values(client) == []


@pytest.mark.parametrize(("topic", "index"), [("other", 0), ("topic", 1), ("topic", -1)])
async def test_an_unknown_partition_is_said_to_be_unknown(client: WireClient, topic: str, index: int) -> None:
    await create_topic(client)

    answer = await produce(client, batch(b"value"), topic=topic, index=index)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert answer.log_start_offset == -1


async def test_an_unknown_topic_id_is_told_from_an_unknown_partition_of_a_known_one(client: WireClient) -> None:
    topic_id = await create_topic(client)

    unknown_id = await client.call(by_id(bytes(15) + b"\1", batch(b"value")), 13)
    unknown_index = await client.call(by_id(topic_id, batch(b"value"), index=1), 13)

    assert only(only(unknown_id.responses).partition_responses).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert only(only(unknown_index.responses).partition_responses).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_one_partition_that_fails_does_not_keep_the_others_from_it(client: WireClient) -> None:
    await create_topic(client, partitions=2)
    request = produce_request(batch(b"good"))
    request.topic_data[0].partition_data += [
        PartitionProduceData(index=1, records=without_crc(batch(b"bad"))),
        PartitionProduceData(index=2, records=batch(b"nowhere")),
    ]

    answers = only((await client.call(request, 9)).responses).partition_responses

    assert [(answer.index, answer.error_code) for answer in answers] == [
        (0, 0),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert await read_values(client) == [b"good"]
    assert await read_values(client, indexes=[1]) == []


CONTROL_RECORD = Record(timestamp=NOW_MS, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (None, ErrorCode.INVALID_RECORD),
        (batch(b"value")[:40], ErrorCode.INVALID_RECORD),
        (batch(b"value")[:-1], ErrorCode.INVALID_RECORD),
        (batch(b"one") + batch(b"two"), ErrorCode.INVALID_RECORD),
        (without_crc(batch(b"value")), ErrorCode.CORRUPT_MESSAGE),
        (bytes(80), ErrorCode.CORRUPT_MESSAGE),
        (
            bytes([*batch(b"value")[:MAGIC_POSITION], 1, *batch(b"value")[MAGIC_POSITION + 1 :]]),
            ErrorCode.INVALID_RECORD,
        ),
        (
            bytes([*batch(b"value")[:MAGIC_POSITION], 3, *batch(b"value")[MAGIC_POSITION + 1 :]]),
            ErrorCode.CORRUPT_MESSAGE,
        ),
        (encode_batch([CONTROL_RECORD], control=True), ErrorCode.INVALID_RECORD),
        (
            batch(b"value", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (encode_batch([Record(timestamp=NOW_MS, value=b"v")], base_offset=7), ErrorCode.INVALID_RECORD),
        (encode_batch([Record(timestamp=NOW_MS, value=b"v")], last_offset=3), ErrorCode.INVALID_RECORD),
        (batch(), ErrorCode.INVALID_RECORD),
        (batch(b"value", producer_id=1, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "empty",
        "null",
        "less than a header",
        "cut short",
        "two batches",
        "corrupt",
        "zeros",
        "magic 1",
        "magic 3",
        "control batch",
        "transactional batch",
        "base offset",
        "counts disagree",
        "no records",
        "producer without a sequence",
    ],
)
async def test_invalid_batch_is_refused(client: WireClient, records: bytes | None, code: ErrorCode) -> None:
    await create_topic(client)

    answer = await produce(client, records)

    assert (answer.error_code, answer.base_offset, answer.record_errors) == (code, -1, [])
    # Kafka returns the log start offset with all errors but those that every client understands, and refusals that do
    # not look at the log.
    without_log_start = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert answer.log_start_offset == (-1 if code in without_log_start else 0)
    assert await read_values(client) == []
    assert (await produce(client, batch(b"value"))).base_offset == 0


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
async def test_zstd_needs_version_7(client: WireClient, version: int, code: ErrorCode) -> None:
    """KIP-110."""
    await create_topic(client)

    answer = await produce(client, batch(b"value" * 100, compression=Compression.ZSTD), version)

    assert answer.error_code == code


async def test_two_zstd_batches_before_version_7_are_refused_for_their_compression(client: WireClient) -> None:
    await create_topic(client)
    twice = batch(b"value", compression=Compression.ZSTD) * 2

    assert (await produce(client, twice, 6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await produce(client, twice, 7)).error_code == ErrorCode.INVALID_RECORD


async def test_a_batch_larger_than_max_message_bytes_is_refused(client: WireClient) -> None:
    records = batch(bytes(1000))
    await create_topic(client, "fits", configs={"max.message.bytes": str(len(records))})
    await create_topic(client, "tight", configs={"max.message.bytes": str(len(records) - 1)})

    assert (await produce(client, records, topic="fits")).error_code == 0
    assert (await produce(client, records, topic="tight")).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_with_log_append_time_the_broker_sets_the_time_and_tells_it(client: WireClient) -> None:
    await create_topic(client, configs={"message.timestamp.type": "LogAppendTime"})

    answer = await produce(client, batch(b"one", b"two", timestamp=5))

    assert answer.log_append_time_ms == NOW_MS
    partition = await fetch(client)
    header = read_header(partition.records)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS)
    assert [record.timestamp for record in records_of(partition)] == [NOW_MS, NOW_MS]


async def test_timestamps_too_far_ahead_are_refused_record_by_record(client: WireClient) -> None:
    """KIP-937's `message.timestamp.after.max.ms`, an hour by default; KIP-467's record errors."""
    await create_topic(client)
    records = encode_batch(
        [Record(timestamp=time, value=b"v") for time in (NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS, NOW_MS + 2 * HOUR_MS)]
    )

    answer = await produce(client, records)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert answer.log_start_offset == 0
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert answer.record_errors[0].batch_index_error_message == (
        f"Timestamp {NOW_MS + HOUR_MS + 1} of message with offset 1 is out of range. The timestamp should be within "
        f"[{NOW_MS - (2**63 - 1)}, {NOW_MS + HOUR_MS}]"
    )
    assert (await produce(client, batch(b"value", timestamp=NOW_MS + HOUR_MS))).error_code == 0


async def test_timestamps_too_old_are_refused_where_the_topic_says_so(client: WireClient) -> None:
    await create_topic(client, configs={"message.timestamp.before.max.ms": "1000"})

    assert (await produce(client, batch(b"v", timestamp=NOW_MS - 1001))).error_code == ErrorCode.INVALID_TIMESTAMP
    assert (await produce(client, batch(b"v", timestamp=NOW_MS - 1000))).error_code == 0


async def test_a_compacted_topic_takes_no_record_without_a_key(client: WireClient) -> None:
    await create_topic(client, configs={"cleanup.policy": "compact"})
    records = encode_batch([Record(timestamp=NOW_MS, key=key, value=b"v") for key in (b"k", None, b"", None)])

    answer = await produce(client, records)

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors] == [
        (1, "Compacted topic cannot accept message without key"),
        (3, "Compacted topic cannot accept message without key"),
    ]
    assert answer.error_message.startswith("One or more records have been rejected due to 2 record errors in total")
    assert (await produce(client, batch(b"v", key=b"k"))).base_offset == 0


async def test_a_topic_with_a_compression_of_its_own_stores_batches_in_it(client: WireClient) -> None:
    await create_topic(client, configs={"compression.type": "gzip"})
    values = [b"a" * 500, None, b"", b"b" * 500]

    await produce(client, batch(*values))
    await produce(client, batch(*values, compression=Compression.LZ4))

    for offset in (0, 4):
        partition = await fetch(client, offset)
        assert read_header(partition.records).compression is Compression.GZIP
    assert await read_values(client) == [*values, *values]


async def test_each_batch_is_kept_as_it_came_by_default(client: WireClient) -> None:
    await create_topic(client)
    records = batch(b"a" * 500, compression=Compression.LZ4, timestamp=NOW_MS)

    await produce(client, records)

    stored = bytes((await fetch(client)).records)
    assert stored[16:] == records[16:]  # all bytes after base offset, length and leader epoch


# Acknowledgement


async def test_min_insync_replicas_asks_for_no_more_than_there_are(client: WireClient) -> None:
    """As in Kafka since KIP-966."""
    await create_topic(client, configs={"min.insync.replicas": "2"})

    assert (await produce(client, batch(b"value"))).error_code == 0
    assert await read_values(client) == [b"value"]


@pytest.mark.parametrize(
    ("topic", "records"),
    [("other", batch(b"value")), ("topic", without_crc(batch(b"value"))), ("topic", b"")],
    ids=["unknown topic", "corrupt", "empty"],
)
async def test_a_failure_with_acks_0_closes_the_connection(node: RunningNode, topic: str, records: bytes) -> None:
    """It is the only way to inform a client that requested no response. The client then requests metadata again."""
    async with connected(node.port) as client:
        await create_topic(client)
        await client.send_unanswered(produce_request(records, topic=topic, acks=0), 9)
        await client.expect_close()


async def test_no_other_acks_close_the_connection_when_they_fail(client: WireClient) -> None:
    answer = await produce(client, batch(b"value"), topic="other", acks=1)

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await create_topic(client)


async def test_fetch_in_the_same_write_returns_records_produced_before_it_only(client: WireClient) -> None:
    await create_topic(client)

    await client.pipeline(
        (produce_request(batch(b"one")), 9),
        (fetch_request(), 12),
        (produce_request(batch(b"two")), 9),
        (fetch_request(1), 12),
    )

    received: list[Any] = [await client.receive() for _ in range(4)]
    first, second = (only(only(received[at].responses).partitions) for at in (1, 3))
    assert [record.value for record in records_of(first)] == [b"one"]
    assert [record.value for record in records_of(second)] == [b"two"]


@pytest.mark.parametrize("version", [9, 11, 12])
async def test_transactional_batch_without_a_coordinator_is_refused_with_a_retriable_error(
    client: WireClient, version: int
) -> None:
    """KIP-890: a batch that may begin a transaction is verified."""
    await create_topic(client)
    request = produce_request(batch(b"value", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
    request.transactional_id = "tx"

    answer = only(only((await client.call(request, version)).responses).partition_responses)

    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert await read_values(client) == []


async def test_clients_cannot_write_to_internal_topics(client: WireClient) -> None:
    await create_topic(client, "__consumer_offsets")

    for _ in range(2):
        answer = await produce(client, batch(b"value", key=b"k"), topic="__consumer_offsets")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)

    assert await read_values(client, topic="__consumer_offsets") == []


async def test_produce_creates_no_topic(client: WireClient) -> None:
    """Only Metadata does, in Kafka as here."""
    await produce(client, batch(b"value"), topic="other")

    names = [MetadataRequestTopic(name="other")]
    response = await client.call(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    assert only(response.topics).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
