"""Histograms with fixed buckets. Recording a value costs a binary search and two additions."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class Distribution(NamedTuple):
    """The content of a histogram: `counts` has one more element than `bounds`, for the values above the last one."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class Histogram:
    """Counts values by bucket. A value equal to a bound belongs to the bucket below it, as in Prometheus."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def record(self, value: float, weight: int = 1) -> None:
        """Count a value `weight` times: as often as there were values like it that were not measured."""
        self._counts[bisect_left(self._bounds, value)] += weight
        self._total += value * weight

    @property
    def distribution(self) -> Distribution:
        """The content now, as a copy."""
        return Distribution(self._bounds, tuple(self._counts), self._total)
