"""The ranges between two positions of a streaming query."""

import pytest

from broker.client import TopicPartition
from broker.spark.data_loss import DataLoss, DataLossPolicy
from broker.spark.ranges import OffsetRange
from broker.spark.streaming.planning import (
    Topics,
    continued_offsets,
    ranges_between,
    report_new_partitions,
    report_truncation,
    skip_deleted_records,
)
from broker.spark.streaming.stream_offsets import StreamOffsets

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
OLD_ID, NEW_ID = bytes(16), bytes([1] * 16)
FAIL = DataLossPolicy(fails=True)
GO_ON = DataLossPolicy(fails=False)


def test_partitions_that_exist_go_on() -> None:
    position = StreamOffsets({FIRST: 5}, {"orders": OLD_ID})
    topics = Topics({"orders": OLD_ID}, (FIRST, SECOND))
    assert continued_offsets(position, topics, FAIL) == {FIRST: 5}


def test_a_topic_that_was_created_again_is_reported_and_not_read_on() -> None:
    position = StreamOffsets({FIRST: 5}, {"orders": OLD_ID})
    topics = Topics({"orders": NEW_ID}, (FIRST,))
    with pytest.raises(DataLoss, match="Topic orders was deleted and created again"):
        continued_offsets(position, topics, FAIL)
    assert continued_offsets(position, topics, GO_ON) == {}


def test_a_checkpoint_without_ids_takes_the_topics_that_it_finds() -> None:
    assert continued_offsets(StreamOffsets({FIRST: 5}), Topics({"orders": NEW_ID}, (FIRST,)), FAIL) == {FIRST: 5}


def test_partitions_that_are_gone_are_reported() -> None:
    position = StreamOffsets({FIRST: 5, SECOND: 5}, {"orders": OLD_ID})
    topics = Topics({"orders": OLD_ID}, (FIRST,))
    with pytest.raises(DataLoss, match="orders-1 are gone"):
        continued_offsets(position, topics, FAIL)
    assert continued_offsets(position, topics, GO_ON) == {FIRST: 5}


def test_a_new_partition_that_has_lost_records_is_reported() -> None:
    report_new_partitions({FIRST: 0}, FAIL)
    with pytest.raises(DataLoss, match="Added partition orders-0 starts from 7 instead of 0"):
        report_new_partitions({FIRST: 7}, FAIL)


def test_a_log_that_ends_before_the_position_is_reported() -> None:
    report_truncation({FIRST: 5}, {FIRST: 5, SECOND: 0}, FAIL)
    with pytest.raises(DataLoss, match="Partition orders-0's offset was changed from 5 to 4"):
        report_truncation({FIRST: 5}, {FIRST: 4}, FAIL)


def test_ranges_are_between_the_positions_and_new_partitions_from_their_start() -> None:
    start = StreamOffsets({FIRST: 5}, {"orders": OLD_ID})
    end = StreamOffsets({FIRST: 9, SECOND: 4}, {"orders": OLD_ID}, started_at={SECOND: 1})
    assert ranges_between(start, end, {}) == [
        OffsetRange("orders", OLD_ID, 0, 5, 9),
        OffsetRange("orders", OLD_ID, 1, 1, 4),
    ]


def test_the_first_batch_reads_the_same_when_it_is_repeated_from_another_initial_position() -> None:
    end = StreamOffsets({FIRST: 9}, {"orders": OLD_ID}, started_at={FIRST: 5})
    first, again = StreamOffsets({FIRST: 5}, starts_at_latest=True), StreamOffsets({FIRST: 12}, starts_at_latest=True)
    assert ranges_between(first, end, {}) == ranges_between(again, end, {}) == [OffsetRange("orders", OLD_ID, 0, 5, 9)]


def test_a_truncated_partition_and_one_without_a_start_are_not_read() -> None:
    assert ranges_between(StreamOffsets({FIRST: 5}), StreamOffsets({FIRST: 4, SECOND: 3}), {"orders": OLD_ID}) == []


def test_ids_of_a_connectors_checkpoint_are_looked_up() -> None:
    ranges = ranges_between(StreamOffsets({FIRST: 5}), StreamOffsets({FIRST: 6}), {"orders": NEW_ID})
    assert ranges == [OffsetRange("orders", NEW_ID, 0, 5, 6)]


def test_deleted_records_are_reported_by_the_start_of_the_log() -> None:
    ranges = [OffsetRange("orders", OLD_ID, 0, 5, 9), OffsetRange("orders", OLD_ID, 1, 0, 3)]
    assert skip_deleted_records(ranges, {FIRST: 5, SECOND: 0}, FAIL) == ranges
    with pytest.raises(DataLoss, match="its log starts at 8"):
        skip_deleted_records(ranges, {FIRST: 8, SECOND: 0}, FAIL)
    kept = skip_deleted_records(ranges, {FIRST: 8, SECOND: 20}, GO_ON)
    assert [(each.start, each.end) for each in kept] == [(8, 9), (3, 3)]
