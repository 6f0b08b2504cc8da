"""Admission control: the distribution of a batch's rows and bytes over the partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import TopicPartition
from broker.spark.offsets import Offsets
from broker.spark.streaming.admission import (
    MinimumRows,
    count_rows,
    fraction_by_bytes,
    fraction_by_rows,
    limit_offsets,
)


def offsets(*values: int) -> Offsets:
    return {TopicPartition("orders", number): value for number, value in enumerate(values)}


def limited(start: Offsets, end: Offsets, rows_max: int) -> Offsets:
    return limit_offsets(start, end, fraction_by_rows(start, end, rows_max))


def test_rows_are_shared_in_proportion_to_available_offsets() -> None:
    assert limited(offsets(0, 100, 0), offsets(200, 200, 100), 100) == offsets(50, 125, 25)


def test_a_share_below_one_row_becomes_one_row_and_larger_ones_are_rounded_down() -> None:
    assert limited(offsets(0, 0), offsets(1, 999), 10) == offsets(1, 9)


def test_everything_is_read_where_the_limit_allows_it() -> None:
    assert limited(offsets(5, 5), offsets(10, 5), 5) == offsets(10, 5)
    assert limited(offsets(5), offsets(5), 1) == offsets(5)


def test_a_partition_whose_log_was_truncated_ends_where_it_ends() -> None:
    assert limited(offsets(10, 0), offsets(4, 100), 10) == offsets(4, 10)


def test_bytes_are_shared_by_the_sizes_of_records() -> None:
    start, end = offsets(0, 0), offsets(100, 100)
    sizes = {TopicPartition("orders", 0): 10.0, TopicPartition("orders", 1): 1_000.0}
    fraction = fraction_by_bytes(start, end, 10_100, sizes)
    assert limit_offsets(start, end, fraction) == offsets(10, 10)


def test_bytes_do_not_limit_partitions_of_unknown_size() -> None:
    assert fraction_by_bytes(offsets(0), offsets(100), 1, {}) == 1.0


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), min_size=1, max_size=8),
    st.integers(1, 2**63 - 1),
)
def test_a_batch_stays_within_available_offsets_and_makes_progress(
    ranges: list[tuple[int, int]], rows_max: int
) -> None:
    start = offsets(*(first for first, _ in ranges))
    end = offsets(*(first + size for first, size in ranges))
    found = limited(start, end, rows_max)
    assert all(start[each] <= found[each] <= end[each] for each in end)
    assert all(found[each] > start[each] for each in end if end[each] > start[each])
    # Rounding up adds at most one row per partition; floats are exact to 53 bits.
    assert count_rows(start, found) <= (rows_max + len(ranges)) * (1 + 1e-9)


@pytest.mark.parametrize(("rows", "elapsed_s", "starts"), [(99, 59.0, False), (100, 0.0, True), (1, 60.0, True)])
def test_minimum_holds_a_batch_until_there_are_enough_rows_or_the_delay_is_over(
    rows: int, elapsed_s: float, starts: bool
) -> None:
    now_s = 1_000.0
    minimum = MinimumRows(100, 60.0, lambda: now_s)
    assert minimum.admits(1), "the first batch is not held"
    now_s += elapsed_s
    assert minimum.admits(rows) is starts


def test_minimum_counts_the_delay_from_the_last_batch() -> None:
    now_s = 0.0
    minimum = MinimumRows(100, 60.0, lambda: now_s)
    minimum.admits(1)
    now_s = 50.0
    assert minimum.admits(100)
    now_s = 100.0
    assert not minimum.admits(99)
    now_s = 110.0
    assert minimum.admits(99)
