"""Admission control: decides whether a micro-batch starts, and where it ends."""

from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import Final

from broker.client import TopicPartition
from broker.spark.offsets import Offsets

_ALL: Final = 1.0


def count_rows(start: Offsets, end: Offsets) -> int:
    """Counts the offsets between two positions, in the partitions that both have."""
    return sum(max(offset - start[partition], 0) for partition, offset in end.items() if partition in start)


def fraction_by_rows(start: Offsets, end: Offsets, rows_max: int) -> float:
    """The fraction of the offsets that a batch of `rows_max` rows may read; 1 or more means all."""
    rows = count_rows(start, end)
    return rows_max / rows if rows else _ALL


def fraction_by_bytes(
    start: Offsets, end: Offsets, bytes_max: int, bytes_per_offset: Mapping[TopicPartition, float]
) -> float:
    """The fraction of the offsets that a batch of `bytes_max` bytes may read; 1 or more means all."""
    size = sum(
        max(offset - start[partition], 0) * bytes_per_offset.get(partition, 0.0)
        for partition, offset in end.items()
        if partition in start
    )
    return bytes_max / size if size else _ALL


def limit_offsets(start: Offsets, end: Offsets, fraction: float) -> Offsets:
    """Returns the end of a batch that reads the same fraction of every partition.

    This is the rule of Spark's connector: a share below one row becomes one row, so that no partition starves; a larger
    share is rounded down.
    """
    if fraction >= _ALL:
        return end
    limited = dict(end)
    for partition, offset in end.items():
        size = offset - start.get(partition, offset)
        if size > 0:
            share = fraction * size
            rows = ceil(share) if share < 1 else floor(share)
            limited[partition] = min(offset, start[partition] + rows)
    return limited


class MinimumRows:
    """Holds a batch back until enough rows are there, or the last batch was long ago. The first one is not held."""

    def __init__(self, rows_min: int, delay_max_s: float, now_s: Callable[[], float]) -> None:
        self._rows_min = rows_min
        self._delay_max_s = delay_max_s
        self._now_s = now_s
        self._last_batch_s: float | None = None

    def admits(self, rows: int) -> bool:
        """True if a batch of so many rows may start now; it then counts as the last one."""
        now_s = self._now_s()
        is_due = self._last_batch_s is None or now_s - self._last_batch_s >= self._delay_max_s
        if not is_due and rows < self._rows_min:
            return False
        self._last_batch_s = now_s
        return True
