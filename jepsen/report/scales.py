"""Maps values to coordinates, chooses the labels of axes, and formats quantities."""

from collections.abc import Iterator
from math import ceil, floor, log10
from typing import Final

import attrs

# Distances between labels that are easy to read.
_STEPS: Final = (1.0, 2.0, 5.0)
_TIME_STEPS: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)
_MINUTE: Final = 60.0


@attrs.frozen
class Linear:
    """A linear scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, wanted: int) -> list[float]:
        """Round values to label, about `wanted` of them."""
        rough = (self.high - self.low) / max(wanted, 1)
        power = 10.0 ** floor(log10(rough))
        step = next((each * power for each in _STEPS if each * power >= rough), 10 * power)
        return _multiples(step, self.low, self.high)

    def time_ticks(self, wanted: int) -> list[float]:
        """Values to label on an axis of time: multiples of clock units."""
        rough = (self.high - self.low) / max(wanted, 1)
        step = next((each for each in _TIME_STEPS if each >= rough), _TIME_STEPS[-1])
        return _multiples(step, self.low, self.high)


@attrs.frozen
class Logarithmic:
    """A logarithmic scale from positive values to pixels. Values out of range are drawn at the ends."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        share = log10(value / self.low) / log10(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9) + 1)]

    def steps(self, count: int) -> Iterator[tuple[float, float]]:
        """Split the scale into `count` ranges of the same width in pixels."""
        factor = (self.high / self.low) ** (1 / count)
        for index in range(count):
            yield self.low * factor**index, self.low * factor ** (index + 1)


def decades_around(lowest: float, highest: float) -> tuple[float, float]:
    """The powers of ten that enclose two values."""
    low = 10.0 ** floor(log10(lowest))
    return low, max(10.0 ** ceil(log10(highest)), 10 * low)


def duration(seconds: float) -> str:
    """Format a duration with a useful number of digits: 0.4 ms, 12 ms, 1.24 s, 2 min 5 s."""
    milliseconds = seconds * 1_000
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def brief(seconds: float) -> str:
    """Format a round duration for the label of an axis: 10 ms, 1 s."""
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1_000:g} ms"


def clock(seconds: float) -> str:
    """Format a time of the run: 0:05, 12:30."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def quantity(value: float) -> str:
    """Format a number with commas: 12,345. Large ones are rounded: 12.3k."""
    return f"{value / 1_000:g}k" if value >= 10_000 and value % 100 == 0 else f"{value:,.0f}"


def _multiples(step: float, low: float, high: float) -> list[float]:
    return [step * index for index in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
