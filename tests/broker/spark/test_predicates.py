"""Predicates are converted to bounds of the ranges to read."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringStartsWith,
)

from broker.client import TopicPartition
from broker.spark.predicates import Bounds, narrow, push
from broker.spark.ranges import OffsetRange

MOMENT = datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=UTC)
US = 1_000_500


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([EqualTo(("partition",), 3)], Bounds(partitions=frozenset({3}))),
        ([In(("partition",), (1, 2)), In(("partition",), (2, 3))], Bounds(partitions=frozenset({2}))),
        ([EqualTo(("topic",), "a"), StringStartsWith(("topic",), "b")],
         Bounds(topics=frozenset({"a"}), topic_prefixes=("b",))),
        ([EqualTo(("offset",), 7)], Bounds(offset_start=7, offset_end=8)),
        ([GreaterThan(("offset",), 7), LessThanOrEqual(("offset",), 9)], Bounds(offset_start=8, offset_end=10)),
        ([GreaterThanOrEqual(("offset",), 7), GreaterThanOrEqual(("offset",), 3), LessThan(("offset",), 9)],
         Bounds(offset_start=7, offset_end=9)),
        ([IsNotNull(("partition",))], Bounds()),
    ],
)  # fmt: skip
def test_predicates_on_places_are_left_to_the_source(filters: list[Filter], bounds: Bounds) -> None:
    assert push(filters) == (bounds, [])


@pytest.mark.parametrize(
    ("pushed", "bounds"),
    [
        (GreaterThanOrEqual(("timestamp",), MOMENT), Bounds(time_start_us=US)),
        (GreaterThan(("timestamp",), MOMENT), Bounds(time_start_us=US + 1)),
        (LessThan(("timestamp",), MOMENT), Bounds(time_end_us=US)),
        (LessThanOrEqual(("timestamp",), MOMENT), Bounds(time_end_us=US + 1)),
        (EqualTo(("timestamp",), MOMENT), Bounds(time_start_us=US, time_end_us=US + 1)),
    ],
)
def test_predicates_on_timestamps_are_left_to_spark_as_well(pushed: Filter, bounds: Bounds) -> None:
    assert push([pushed]) == (bounds, [pushed])


def test_a_bound_in_1970_is_not_replaced_by_an_earlier_one() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    pushed: list[Filter] = [
        GreaterThanOrEqual(("timestamp",), epoch),
        GreaterThanOrEqual(("timestamp",), epoch - timedelta(seconds=1)),
    ]
    assert push(pushed) == (Bounds(time_start_us=0), pushed)


@pytest.mark.parametrize(
    "other",
    [
        EqualTo(("key",), b"k"),
        IsNull(("key",)),
        IsNotNull(("value",)),
        StringContains(("topic",), "a"),
        In(("offset",), (1, 5)),
        GreaterThan(("partition",), 1),
        EqualTo(("headers", "key"), "k"),
    ],
)
def test_other_predicates_are_left_to_spark(other: Filter) -> None:
    assert push([other]) == (Bounds(), [other])


def test_narrowed_ranges_are_within_the_bounds() -> None:
    ranges = [OffsetRange(topic, b"i" * 16, number, 10, 20) for topic in ("a", "b") for number in (0, 1)]
    bounds = Bounds(topics=frozenset({"a", "c"}), partitions=frozenset({1}), offset_start=12, offset_end=99)
    assert narrow(ranges, bounds, no_times, None) == [OffsetRange("a", b"i" * 16, 1, 12, 20)]
    assert narrow(ranges, Bounds(offset_start=20), no_times, None) == []


def no_times(timestamps_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
    raise AssertionError("there is no time to look for")


@pytest.mark.parametrize(("lateness_ms", "expected"), [(None, (13, 20)), (0, (13, 15)), (3, (13, 18)), (100, (13, 20))])
def test_times_become_offsets_and_late_records_are_read(lateness_ms: int | None, expected: tuple[int, int]) -> None:
    """Offset n is written at n ms."""

    def at_times(timestamps_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        return {each: None if time >= 25 else time for each, time in timestamps_ms.items()}

    start, end = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=each) for each in (12.5, 15))
    bounds, _ = push([GreaterThanOrEqual(("timestamp",), start), LessThan(("timestamp",), end)])
    [found] = narrow([OffsetRange("a", b"i" * 16, 0, 10, 20)], bounds, at_times, lateness_ms)
    assert (found.start, found.end) == expected


def test_a_time_after_all_records_leaves_nothing_to_read() -> None:
    bounds = Bounds(time_start_us=1)
    assert narrow([OffsetRange("a", b"i" * 16, 0, 0, 9)], bounds, lambda times: dict.fromkeys(times), None) == []
