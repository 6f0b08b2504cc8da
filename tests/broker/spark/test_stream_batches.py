"""The micro-batches of a streaming query, planned against a node."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from broker.client import NewPartitions, NewTopic, OffsetSpec, SyncAdmin, SyncProducer, TopicPartition
from broker.spark.data_loss import DataLoss
from broker.spark.offsets import Offsets
from broker.spark.options import ReadOptions
from broker.spark.streaming.batches import MicroBatches
from broker.spark.streaming.stream_offsets import StreamOffsets

numbers = count()


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[SyncAdmin]:
    with SyncAdmin(bootstrap) as admin:
        yield admin


@pytest.fixture(scope="module")
def producer(bootstrap: str) -> Iterator[SyncProducer]:
    with SyncProducer(bootstrap, linger_ms=0) as producer:
        yield producer


@pytest.fixture
def topic(admin: SyncAdmin) -> str:
    """A topic of two partitions."""
    name = f"orders-{next(numbers)}"
    admin.create_topics([NewTopic(name, num_partitions=2)]).raise_first()
    return name


def fill(producer: SyncProducer, topic: str, *rows: int) -> None:
    """Write the given number of rows to partition 0, 1, ..."""
    deliveries = [
        producer.send_soon(topic, b"x" * 100, partition=number) for number, each in enumerate(rows) for _ in range(each)
    ]
    for delivery in deliveries:
        delivery.result()


@contextmanager
def batches(bootstrap: str, topic: str, **options: str) -> Iterator[MicroBatches]:
    given: dict[str, str] = {
        "kafka.bootstrap.servers": bootstrap,
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": "50",
        **({} if "subscribePattern" in options else {"subscribe": topic}),
        **options,
    }
    opened = MicroBatches.open(ReadOptions.of(given, is_streaming=True))
    try:
        yield opened
    finally:
        opened.close()


def offsets(topic: str, *values: int) -> Offsets:
    return {TopicPartition(topic, number): value for number, value in enumerate(values)}


def end_of(found: MicroBatches, position: StreamOffsets, *, is_limited: bool = True) -> StreamOffsets:
    end = found.next_end(position, is_limited=is_limited)
    assert end is not None, "there is something to read"
    return end


def sizes(found: MicroBatches, start: StreamOffsets, end: StreamOffsets) -> list[int]:
    return [each.size for each in found.ranges(start, end)]


def test_batches_read_available_records_and_then_wait(bootstrap: str, topic: str, producer: SyncProducer) -> None:
    fill(producer, topic, 3, 1)
    with batches(bootstrap, topic) as found:
        start = found.initial()
        assert start.offsets == offsets(topic, 0, 0)
        end = end_of(found, start)
        assert end.offsets == offsets(topic, 3, 1)
        assert not end.is_initial
        assert sizes(found, start, end) == [3, 1]
        assert found.next_end(end, is_limited=True) is None
        fill(producer, topic, 0, 2)
        later = end_of(found, end)
        assert later.offsets == offsets(topic, 3, 3)
        assert later.started_at == {}
        assert later.group_id == end.group_id == start.group_id
        assert sizes(found, end, later) == [2]


def test_rows_of_a_batch_are_limited_unless_all_are_asked_for(
    bootstrap: str, topic: str, producer: SyncProducer
) -> None:
    fill(producer, topic, 30, 10)
    with batches(bootstrap, topic, maxOffsetsPerTrigger="8") as found:
        start = found.initial()
        assert end_of(found, start).offsets == offsets(topic, 6, 2)
        assert end_of(found, start, is_limited=False).offsets == offsets(topic, 30, 10)


def test_bytes_of_a_batch_are_limited(bootstrap: str, topic: str, producer: SyncProducer) -> None:
    fill(producer, topic, 200, 200)
    with batches(bootstrap, topic, maxBytesPerTrigger="4000") as found:
        end = end_of(found, found.initial())
        # A record of 100 bytes takes 170 in a batch of its own, because the header has 61.
        assert 20 <= sum(end.offsets.values()) <= 40


def test_a_batch_waits_for_the_minimum_or_the_delay(bootstrap: str, topic: str, producer: SyncProducer) -> None:
    with batches(bootstrap, topic, minOffsetsPerTrigger="5", maxTriggerDelay="1s") as found:
        fill(producer, topic, 1, 0)
        first = end_of(found, found.initial())
        fill(producer, topic, 4, 0)
        assert found.next_end(first, is_limited=True) is None
        fill(producer, topic, 1, 0)
        second = end_of(found, first)
        fill(producer, topic, 1, 0)
        assert found.next_end(second, is_limited=True) is None
        time.sleep(1)
        assert end_of(found, second).offsets == offsets(topic, 7, 0)


def test_available_now_stops_at_the_ends_of_its_start(bootstrap: str, topic: str, producer: SyncProducer) -> None:
    fill(producer, topic, 5, 0)
    with batches(bootstrap, topic, maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3") as found:
        found.fix_target()
        first = end_of(found, found.initial())
        fill(producer, topic, 5, 5)
        last = end_of(found, first)
        assert (first.offsets, last.offsets) == (offsets(topic, 3, 0), offsets(topic, 5, 0))
        assert found.next_end(last, is_limited=True) is None


def test_a_query_that_starts_at_the_latest_offsets_pins_them_by_an_empty_batch(
    bootstrap: str, topic: str, producer: SyncProducer
) -> None:
    fill(producer, topic, 3, 0)
    with batches(bootstrap, topic, startingOffsets="latest") as found:
        start = found.initial()
        pinned = end_of(found, start)
        assert pinned.offsets == pinned.started_at == offsets(topic, 3, 0)
        assert sizes(found, start, pinned) == []
        assert found.next_end(pinned, is_limited=True) is None
    fill(producer, topic, 2, 0)
    with batches(bootstrap, topic, startingOffsets="latest") as again:
        end = end_of(again, pinned)
        assert sizes(again, pinned, end) == [2]
        # The first batch is the same when it is repeated after a crash, although the latest offsets have changed.
        assert sizes(again, again.initial(), pinned) == []


def test_offsets_are_committed_to_a_group_after_the_batch(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    def committed(group: str) -> dict[int, int]:
        found = admin.list_group_offsets({group: None}).value(group).succeeded
        return {each.partition: offset.offset for each, offset in found.items() if offset is not None}

    fill(producer, topic, 3, 1)
    with batches(bootstrap, topic, groupIdPrefix="reports") as found:
        end = end_of(found, found.initial())
        assert end.group_id is not None
        assert end.group_id.startswith("reports-")
        assert committed(end.group_id) == {}
        # Spark requests the next batch when this one is complete, also after the last one of AvailableNow.
        assert found.next_end(end, is_limited=True) is None
        assert committed(end.group_id) == {0: 3, 1: 1}
    with batches(bootstrap, topic, **{"kafka.group.id": f"mine-{topic}"}) as found:
        found.commit(end)
        assert committed(f"mine-{topic}") == {0: 3, 1: 1}


def test_report_has_the_ends_and_the_lag(bootstrap: str, topic: str, producer: SyncProducer) -> None:
    fill(producer, topic, 10, 0)
    with batches(bootstrap, topic, maxOffsetsPerTrigger="4") as found:
        assert found.report() is None
        end_of(found, found.initial())
        report = found.report()
        assert report is not None
        assert report[topic] == {"0": 10, "1": 0}
        assert report["#metrics"]["totalOffsetsBehindLatest"] == 6
        assert report["#metrics"]["maxOffsetsBehindLatest"] == 6


def test_new_partitions_and_topics_of_a_pattern_are_read_from_their_beginning(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    fill(producer, topic, 1, 0)
    with batches(bootstrap, topic, subscribePattern=f"{topic}.*") as found:
        first = end_of(found, found.initial())
        admin.create_partitions({topic: NewPartitions(3)}).raise_first()
        other = f"{topic}-more"
        admin.create_topics([NewTopic(other, num_partitions=1)]).raise_first()
        fill(producer, topic, 1, 0, 2)
        fill(producer, other, 4)
        end = end_of(found, first)
        assert end.offsets == {**offsets(topic, 2, 0, 2), **offsets(other, 4)}
        assert {(each.topic, each.partition): each.size for each in found.ranges(first, end)} == {
            (topic, 0): 1,
            (topic, 2): 2,
            (other, 0): 4,
        }


def recreate(admin: SyncAdmin, topic: str) -> None:
    admin.delete_topics([topic]).raise_first()
    admin.create_topics([NewTopic(topic, num_partitions=2)]).raise_first()


def test_a_topic_that_is_created_again_fails_the_query(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    fill(producer, topic, 3, 0)
    with batches(bootstrap, topic) as found:
        end = end_of(found, found.initial())
        recreate(admin, topic)
        with SyncProducer(bootstrap, linger_ms=0) as fresh:
            fill(fresh, topic, 9, 0)
        with pytest.raises(DataLoss, match=f"Topic {topic} was deleted and created again"):
            found.next_end(end, is_limited=True)


def test_a_topic_that_is_created_again_is_read_from_its_beginning_where_losses_are_allowed(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    fill(producer, topic, 3, 0)
    with batches(bootstrap, topic, failOnDataLoss="false") as found:
        end = end_of(found, found.initial())
        recreate(admin, topic)
        with SyncProducer(bootstrap, linger_ms=0) as fresh:
            fill(fresh, topic, 2, 0)
        again = end_of(found, end)
        assert again.offsets == offsets(topic, 2, 0)
        assert again.topic_ids != end.topic_ids
        assert sizes(found, end, again) == [2]


def test_a_deleted_topic_fails_the_query_or_is_left_out(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    fill(producer, topic, 3, 0)
    fast = {"kafka.default.api.timeout.ms": "500"}
    with batches(bootstrap, topic, **fast) as strict, batches(bootstrap, topic, failOnDataLoss="false", **fast) as lax:
        end = end_of(strict, strict.initial())
        end_of(lax, lax.initial())
        admin.delete_topics([topic]).raise_first()
        with pytest.raises(DataLoss, match=f"{topic}-0, {topic}-1 are gone"):
            strict.next_end(end, is_limited=True)
        gone = end_of(lax, end)
        assert gone.offsets == {}
        assert lax.next_end(gone, is_limited=True) is None


def test_records_that_were_deleted_before_they_were_read_are_judged_by_the_start_of_the_log(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    fill(producer, topic, 10, 0)
    with batches(bootstrap, topic, maxOffsetsPerTrigger="2") as found:
        start = found.initial()
        end = end_of(found, start)
        admin.delete_records({TopicPartition(topic, 0): 1}).raise_first()
        assert admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.EARLIEST})
        with pytest.raises(DataLoss, match="its log starts at 1"):
            found.ranges(start, end)
    with batches(bootstrap, topic, failOnDataLoss="false") as lax:
        assert [(each.start, each.end) for each in lax.ranges(start, end)] == [(1, 2)]


def test_aborted_records_that_were_deleted_before_they_were_read_count_as_lost(
    bootstrap: str, topic: str, producer: SyncProducer, admin: SyncAdmin
) -> None:
    """The brokers do not say which records they have deleted: the query cannot know that it would have read none."""
    fill(producer, topic, 1, 0)
    committed = {"kafka.isolation.level": "read_committed"}
    with batches(bootstrap, topic, **committed) as found:
        start = end_of(found, found.initial())
        with SyncProducer(bootstrap, transactional_id=topic) as aborting:
            aborting.begin_transaction()
            aborting.send(topic, b"aborted", partition=0)
            aborting.abort_transaction()
        end = end_of(found, start)
        assert end.offsets == offsets(topic, 3, 0)
        assert sizes(found, start, end) == [2]
        admin.delete_records({TopicPartition(topic, 0): 2}).raise_first()
        with pytest.raises(DataLoss, match="its log starts at 2"):
            found.ranges(start, end)
    with batches(bootstrap, topic, **committed, failOnDataLoss="false") as lax:
        assert sizes(lax, start, end) == [1]


def test_a_checkpoint_of_sparks_connector_goes_on(bootstrap: str, topic: str, producer: SyncProducer) -> None:
    fill(producer, topic, 3, 2)
    theirs: dict[str, Any] = {topic: {"0": 1, "1": 2}}
    with batches(bootstrap, topic) as found:
        position = StreamOffsets.of_json(theirs)
        end = end_of(found, position)
        assert sizes(found, position, end) == [2]
        assert end.group_id is not None
        # A batch that the connector has planned but not finished.
        assert sizes(found, StreamOffsets.of_json({topic: {"0": 0, "1": 0}}), position) == [1, 2]


def test_an_idle_query_asks_for_topics_rarely(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with batches(bootstrap, topic) as found:
        position = found.initial()
        asked = []
        ask = found._cluster.topics
        monkeypatch.setattr(found._cluster, "topics", lambda position: asked.append(1) or ask(position))
        began = time.monotonic()
        for _ in range(12):
            assert found.next_end(position, is_limited=True) is None
        assert len(asked) == 1
        # 10, 20, 40, 80 ms, and 100 ms from then on.
        assert time.monotonic() - began > 0.8
