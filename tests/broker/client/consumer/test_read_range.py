"""Ranges of one partition's offsets as Arrow batches: where they end, and what ends them early."""

from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    CorruptRecords,
    NewTopic,
    OffsetOutOfRange,
    SyncConsumer,
    TimedOut,
    TopicDeleted,
)
from broker.client.consumer import range_reader
from broker.wire.api.fetch import FetchRequest, FetchResponse, PartitionData
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression, EndTransactionMarker, encode_end_transaction_marker
from tests.support.requests import produce
from tests.support.scripted_broker import (
    FAST,
    TOPIC_ID,
    ScriptedBroker,
    answer_from_log,
    batch,
    brokers,
    consumer_of,
    once,
    refusal,
)
from tests.support.topics_for_consumers import (
    ONE,
    WITHIN_S,
    ZERO,
    consuming,
    fetch_exactly,
    fill_node,
    node_with_topic,
    numbered,
    values,
)
from tests.support.wire_client import connected


async def offsets(consumer: Consumer, start: int, end: int, **settings: Any) -> list[int]:
    """The offsets of the records in a range of partition 0."""
    found: list[int] = []
    with trio.fail_after(WITHIN_S):
        async for rows in consumer.read_range(ZERO, start, end, columns=["offset"], **settings):
            assert rows.num_rows
            found += rows.column("offset").to_pylist()
    return found


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
async def test_a_range_is_read_exactly_wherever_its_batches_begin_and_end(
    tmp_path: Path, compression: Compression
) -> None:
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        for first in range(0, 100, 10):
            await produce(client, numbered(first, 10, compression=compression))
        async with consuming(node.port) as consumer:
            for start, end in [(0, 100), (0, 10), (5, 7), (9, 31), (99, 100), (40, 40), (100, 100)]:
                assert await offsets(consumer, start, end) == list(range(start, end))


async def test_columns_are_those_asked_for_in_their_order(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 2)
        async with consuming(node.port) as consumer:
            [rows] = [rows async for rows in consumer.read_range(ZERO, 0, 2, columns=["value", "offset"])]
            assert rows.to_pylist() == [{"value": b"0", "offset": 0}, {"value": b"1", "offset": 1}]
            [rows] = [rows async for rows in consumer.read_range(ZERO, 0, 2)]
            assert rows.schema.names[:3] == ["key", "value", "topic"]


async def test_the_consumer_can_be_used_on_after_a_range(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        for index in (0, 1):
            await fill_node(node.port, 30, index=index)
        async with consuming(node.port) as consumer:
            assert await offsets(consumer, 0, 20) == list(range(20))
            assert consumer.assignment() == {ZERO}
            consumer.seek(ZERO, 25)
            assert values(await fetch_exactly(consumer, 5)) == [25, 26, 27, 28, 29]
            consumer.assign([ONE])
            assert values(await fetch_exactly(consumer, 30)) == list(range(30))


async def test_a_range_that_is_left_early_is_forgotten(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 300)
        async with consuming(node.port, max_partition_fetch_bytes=500) as consumer:
            async for rows in consumer.read_range(ZERO, 0, 200, columns=["offset"]):
                assert rows.num_rows
                break
            assert await offsets(consumer, 250, 300) == list(range(250, 300))


async def test_nothing_is_fetched_after_the_end() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        assert await offsets(consumer, 0, 2) == [0, 1]
        await trio.sleep(0.05)
        asked = [topic.partitions[0].fetch_offset for fetch in broker.fetches for topic in fetch.topics]
        assert max(asked) == 1


async def test_control_records_at_the_end_of_a_range_end_it() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=0), base_offset=2, producer_id=1, producer_epoch=0,
        timestamp=0,
    )  # fmt: skip
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        broker.log[2] = marker
        assert await offsets(consumer, 0, 3) == [0, 1]
        assert await offsets(consumer, 2, 3) == []


async def test_offsets_that_were_compacted_away_end_a_range() -> None:
    def next_batch_is_far_beyond(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        return broker.response(PartitionData(records=batch(0, 1) + batch(50, 1), high_watermark=51))

    async with brokers(once(next_batch_is_far_beyond)) as [broker], consumer_of(broker) as consumer:
        assert await offsets(consumer, 0, 20) == [0]


async def test_a_log_whose_last_offsets_were_compacted_away_ends_a_range() -> None:
    """The active segment may be empty, and all remaining records in earlier segments may be below the range."""

    def nothing_left(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse | None:
        if broker.offset < 1 or request.session_epoch < 0:
            return None
        return broker.response(PartitionData(high_watermark=20, last_stable_offset=20))

    async with brokers(nothing_left) as [broker], consumer_of(broker) as consumer:
        assert await offsets(consumer, 0, 20) == [0]


async def test_throttled_responses_without_records_do_not_end_a_range() -> None:
    def throttled(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse | None:
        if len(broker.fetches) > 8:
            return None
        return broker.response(PartitionData(high_watermark=3, last_stable_offset=3), throttle_time_ms=1)

    async with brokers(throttled) as [broker], consumer_of(broker) as consumer:
        assert await offsets(consumer, 0, 3) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["none", "earliest"])
async def test_offsets_that_the_log_has_deleted_are_refused_whatever_the_reset_policy(policy: str) -> None:
    def out_of_range(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        return broker.response(PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))

    async with brokers(out_of_range) as [broker], consumer_of(broker, auto_offset_reset=policy) as consumer:
        with pytest.raises(OffsetOutOfRange) as failure:
            await offsets(consumer, 0, 3)
        assert failure.value.offset == 0


async def test_a_topic_that_was_created_again_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an id and an answer of every broker it is certain at once. Otherwise the range would wait for ever here."""
    monkeypatch.setattr(range_reader, "_UNKNOWN_TIMEOUT_S", inf)
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        assert await offsets(consumer, 0, 3, topic_id=TOPIC_ID) == [0, 1, 2]
        with pytest.raises(TopicDeleted, match="topic topic was deleted and created again: offset 0 of topic-0"):
            await offsets(consumer, 0, 3, topic_id=b"another topic id")


async def test_a_topic_created_again_is_read_although_the_consumer_has_cached_the_id_before(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, consuming(node.port) as consumer:
        await fill_node(node.port, 2)
        assert await offsets(consumer, 0, 2) == [0, 1]
        async with Admin(f"127.0.0.1:{node.port}") as admin:
            (await admin.delete_topics([ZERO.topic])).raise_first()
            (await admin.create_topics([NewTopic(ZERO.topic, 1)])).raise_first()
            created = (await admin.describe_topics([ZERO.topic])).value(ZERO.topic)
        await fill_node(node.port, 3)
        assert await offsets(consumer, 0, 3, topic_id=created.topic_id) == [0, 1, 2]


async def test_a_topic_counts_as_created_again_only_if_no_broker_knows_the_id() -> None:
    """The consumer has asked the second broker only, which has another id: it lags behind, or the first one does."""
    async with brokers(answer_from_log, answer_from_log) as [leader, other]:
        other.topic_id = b"-another-topic-i"
        async with consumer_of(other) as consumer:
            await consumer.partitions_for("topic")
            assert await offsets(consumer, 0, 3, topic_id=TOPIC_ID) == [0, 1, 2]
            assert {topic.topic_id for fetch in leader.fetches for topic in fetch.topics} == {TOPIC_ID}
            leader.topic_id = other.topic_id
            with pytest.raises(TopicDeleted, match="deleted and created again"):
                await offsets(consumer, 0, 3, topic_id=TOPIC_ID)


@pytest.mark.parametrize("topic_id", [TOPIC_ID, None])
async def test_a_topic_counts_as_deleted_only_if_no_broker_knows_it(
    topic_id: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "_UNKNOWN_TIMEOUT_S", 0.1)

    def answer(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse | None:
        return broker.response(PartitionData(error_code=broker.topic_error)) if broker.topic_error else None

    async with brokers(answer, answer) as [leader, other]:
        other.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with consumer_of(other) as consumer:
            await consumer.partitions_for("topic")
            assert await offsets(consumer, 0, 3, topic_id=topic_id) == [0, 1, 2]
            leader.topic_error = other.topic_error
            with pytest.raises(TopicDeleted, match="topic topic was deleted: offset"):
                await offsets(consumer, 0, 3, topic_id=topic_id)


async def test_records_of_a_topic_created_again_are_not_taken_for_those_of_the_topic_before() -> None:
    """The Fetch names the topic that is meant, whatever the metadata has become since."""
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        await offsets(consumer, 0, 3, topic_id=TOPIC_ID)
        broker.topic_id = b"-another-topic-i"
        with pytest.raises(TopicDeleted):
            await offsets(consumer, 0, 5, topic_id=TOPIC_ID)
        asked = {topic.topic_id for fetch in broker.fetches for topic in fetch.topics}
        assert asked == {TOPIC_ID}


async def test_waiting_for_records_is_bounded() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        with pytest.raises(TimedOut, match=r"no records of topic-0 from offset 3 on were received in 0\.1 s"):
            await offsets(consumer, 3, 10, timeout_s=0.1)


@pytest.mark.parametrize("is_repaired", [False, True])
async def test_timeout_names_the_failure_of_the_last_fetch_only(is_repaired: bool) -> None:
    refused = refusal(ErrorCode.KAFKA_STORAGE_ERROR)
    async with brokers(once(refused) if is_repaired else refused) as [broker], consumer_of(broker) as consumer:
        with pytest.raises(TimedOut) as failure:
            await offsets(consumer, 0, 10, timeout_s=1)
    assert ("KAFKA_STORAGE_ERROR" in str(failure.value)) != is_repaired


async def test_damaged_batches_are_named_after_the_records_before_them() -> None:
    def damaged(broker: ScriptedBroker, request: FetchRequest) -> FetchResponse:
        records = bytearray(batch(0, 1) + batch(1, 1))
        records[-1] ^= 1
        return broker.response(PartitionData(records=bytes(records), high_watermark=2))

    async with brokers(damaged) as [broker], consumer_of(broker) as consumer:
        with pytest.raises(CorruptRecords) as failure:
            await offsets(consumer, 0, 3)
        assert failure.value.offset == 1


async def test_a_range_is_from_0_on_and_does_not_end_before_it_starts() -> None:
    async with brokers(answer_from_log) as [broker], consumer_of(broker) as consumer:
        for start, end in [(-1, 3), (3, 2)]:
            with pytest.raises(ValueError, match="a range of offsets is from 0 on"):
                await offsets(consumer, start, end)


async def test_blocking_consumers_read_ranges_too() -> None:
    def read(address: str) -> list[int]:
        settings = {key.replace("_", "."): value for key, value in FAST.items()}
        with SyncConsumer(address, config=settings) as consumer:
            return [
                offset
                for rows in consumer.read_range(ZERO, 0, 3, columns=["offset"])
                for offset in rows.column("offset").to_pylist()
            ]

    async with brokers(answer_from_log) as [broker]:
        assert await trio.to_thread.run_sync(read, broker.node.address) == [0, 1, 2]
