"""Splitting of ranges, with the numbers of Spark's KafkaOffsetRangeCalculatorSuite where it has some."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from broker.spark.ranges import OffsetRange, split_ranges


def a_range(start: int, end: int, partition: int = 1) -> OffsetRange:
    return OffsetRange("topic", b"i" * 16, partition, start, end)


def bounds(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in ranges]


def test_without_limits_there_is_one_range_for_each_partition_with_offsets() -> None:
    ranges = [a_range(1, 2), a_range(5, 5, 2), a_range(3, 9, 3)]
    assert split_ranges(ranges) == [ranges[0], ranges[2]]


def test_min_partitions_that_there_are_already_split_nothing() -> None:
    ranges = [a_range(1, 1000), a_range(1, 5, 2)]
    assert split_ranges(ranges, min_partitions=2) == ranges


def test_min_partitions_split_one_range_into_equal_parts() -> None:
    parts = split_ranges([a_range(1, 5)], min_partitions=4)
    assert bounds(parts) == [(1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 5)]


def test_min_partitions_make_no_empty_ranges() -> None:
    assert bounds(split_ranges([a_range(1, 3)], min_partitions=5)) == [(1, 1, 2), (1, 2, 3)]


def test_min_partitions_split_large_ranges_only() -> None:
    parts = split_ranges([a_range(1, 10_000, 1), a_range(10, 12, 2), a_range(20, 21, 3)], min_partitions=6)
    assert bounds(parts) == [
        (1, 1, 2500),
        (1, 2500, 5000),
        (1, 5000, 7500),
        (1, 7500, 10_000),
        (2, 10, 12),
        (3, 20, 21),
    ]


def test_max_records_bound_each_range() -> None:
    parts = split_ranges([a_range(0, 10), a_range(0, 4, 2)], max_records=4)
    assert bounds(parts) == [(1, 0, 3), (1, 3, 6), (1, 6, 10), (2, 0, 4)]


def test_min_partitions_split_ranges_that_max_records_left_whole() -> None:
    parts = split_ranges([a_range(0, 100)], min_partitions=4, max_records=50)
    assert bounds(parts) == [(1, 0, 25), (1, 25, 50), (1, 50, 75), (1, 75, 100)]


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 500)), max_size=6),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 600),
)
def test_parts_cover_the_offsets_once_in_order(
    sizes: list[tuple[int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    ranges = [a_range(start, start + size, number) for number, (start, size) in enumerate(sizes)]
    parts = split_ranges(ranges, min_partitions, max_records)
    for each in ranges:
        of_partition = [part for part in parts if part.partition == each.partition]
        ends = [each.start, *(part.end for part in of_partition)]
        assert [part.start for part in of_partition] == ends[:-1]
        assert ends[-1] == each.end
    assert all(0 < part.size <= (max_records or part.size) for part in parts)


def test_a_range_is_small_when_pickled() -> None:
    whole = a_range(2**40, 2**41)
    pickled = pickle.dumps(whole)
    assert pickle.loads(pickled) == whole
    assert len(pickled) < 250
