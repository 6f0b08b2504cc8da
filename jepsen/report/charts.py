"""Charts of rates and latencies over time, and of the distribution of latencies."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log10
from typing import Final

import attrs

from jepsen.report.findings import Findings
from jepsen.report.markup import Markup, element
from jepsen.report.scales import Linear, Logarithmic, brief, decades_around, duration, quantity

# The lower end of latency axes.
_LATENCY_MIN: Final = 1e-4
_SPREAD_STEPS: Final = 72
_CHARACTER_WIDTH: Final = 5.8


@attrs.frozen
class Frame:
    """The area of a chart: times are mapped by `x`, and values lie between `top` and `bottom`. `left` is where labels
    end.
    """

    x: Linear
    top: float
    height: float
    left: float

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def right(self) -> float:
        return self.x.end

    def mark(self, y: float, text: str) -> Markup:
        """A horizontal grid line with its label."""
        return element(
            "g",
            element("line", class_="grid", x1=self.left, x2=self.right, y1=y, y2=y),
            element("text", text, class_="tick figures", x=self.left - 10, y=y + 3.5),
        )

    def keys(self, *names: tuple[str, str]) -> Markup:
        """The legend above the chart on the right, from pairs of CSS class and text."""
        parts, x = [], self.right
        for class_, words in reversed(names):
            x -= _CHARACTER_WIDTH * len(words) + 26
            parts.append(element("rect", class_=f"swatch {class_}", x=x, y=self.top - 17, width=9, height=9, rx=2))
            parts.append(element("text", words, class_="key", x=x + 14, y=self.top - 9))
        return element("g", parts)


def rate_chart(found: Findings, frame: Frame) -> Markup:
    """Operations per second by outcome, stacked, with reads as a line."""
    rates, bins = found.rates, found.bins
    totals = [sum(each) for each in zip(rates.ok, rates.info, rates.fail, strict=True)]
    # A consumer that starts at offset zero reads many records at once. Such peaks are cut off to keep the scale useful.
    y = Linear(0.0, max(*totals, 1.0) * 1.05, frame.bottom, frame.top)
    parts = [frame.mark(y(each), quantity(each)) for each in y.ticks(5)]
    base = bins.zeros()
    for class_, series in (("ok", rates.ok), ("info", rates.info), ("fail", rates.fail)):
        top = [below + value for below, value in zip(base, series, strict=True)]
        if any(series):
            parts.append(_area(class_, base, top, lambda index: frame.x(index * bins.width), y))
        base = top
    names = [("ok", "acknowledged"), ("info", "unknown"), ("fail", "failed")]
    shown = [name for name, series in zip(names, (rates.ok, rates.info, rates.fail), strict=True) if any(series)]
    if any(rates.read):
        centers = [frame.x((index + 0.5) * bins.width) for index in range(bins.count)]
        parts.append(_line("read", centers, [min(each, y.high) for each in rates.read], y))
        shown.append(("read", "read"))
    return element("g", parts, frame.keys(*shown))


def latency_chart(found: Findings, frame: Frame) -> Markup:
    """Median, 99th percentile and maximum latency, by the time of the request, on a logarithmic axis."""
    measured, bins = found.latencies, found.bins
    if not measured.all:
        return Markup("")
    y = Logarithmic(*_latency_range(measured.all), frame.bottom, frame.top)
    parts = [frame.mark(y(each), brief(each)) for each in y.decades()]
    centers = [frame.x((index + 0.5) * bins.width) for index in range(bins.count)]
    for run in _runs(measured.median):
        forward = [f"{centers[index]:.1f},{y(measured.p99[index] or 0):.1f}" for index in run]
        back = [f"{centers[index]:.1f},{y(measured.median[index] or 0):.1f}" for index in reversed(run)]
        parts.append(element("path", class_="between", d="M" + " L".join([*forward, *back]) + "Z"))
    for at, longest in zip(centers, measured.longest, strict=True):
        if longest is not None:
            parts.append(
                element("circle", element("title", duration(longest)), class_="longest", cx=at, cy=y(longest), r=1.7)
            )
    parts.append(_line("p99", centers, measured.p99, y))
    parts.append(_line("median", centers, measured.median, y))
    return element("g", parts, frame.keys(("median", "median"), ("p99", "99th percentile"), ("longest", "longest")))


def spread_chart(latencies: Sequence[float], width: float, height: float) -> Markup:
    """A histogram of latencies. Both axes are logarithmic, so that the few long latencies are visible."""
    x = Logarithmic(*_latency_range(latencies), 8.0, width - 8.0)
    counts = _counts(latencies, x)
    highest = log10(max(counts) + 1)
    bottom = height - 22
    parts = []
    for (low, high), count in zip(x.steps(_SPREAD_STEPS), counts, strict=True):
        if count:
            tall = max(log10(count + 1) / highest * (bottom - 26), 1.5)
            title = f"{count:,} took {duration(low)} to {duration(high)}"
            bar = element(
                "rect",
                element("title", title),
                x=x(low) + 0.5,
                y=bottom - tall,
                width=x(high) - x(low) - 1,
                height=tall,
            )
            parts.append(bar)
    for each in x.decades():
        parts.append(element("text", brief(each), class_="tick time", x=x(each), y=height - 6))
    return element("svg", parts, viewBox=f"0 0 {width:g} {height:g}", class_="spread", role="img")


def _latency_range(latencies: Sequence[float]) -> tuple[float, float]:
    return decades_around(max(latencies[0], _LATENCY_MIN), max(latencies[-1], _LATENCY_MIN))


def _counts(ordered: Sequence[float], x: Logarithmic) -> list[int]:
    counts = [0] * _SPREAD_STEPS
    for latency in ordered:
        share = (x(latency) - x.start) / (x.end - x.start)
        counts[min(int(share * _SPREAD_STEPS), _SPREAD_STEPS - 1)] += 1
    return counts


def _area(class_: str, base: Sequence[float], top: Sequence[float], x: Callable[[int], float], y: Linear) -> Markup:
    """A stepped area between the values of `base` and those of `top`."""
    forward = [f"{x(index):.1f},{y(value):.1f} {x(index + 1):.1f},{y(value):.1f}" for index, value in enumerate(top)]
    back = [f"{x(index + 1):.1f},{y(value):.1f} {x(index):.1f},{y(value):.1f}" for index, value in enumerate(base)]
    return element("polygon", class_=f"area {class_}", points=" ".join([*forward, *reversed(back)]))


def _line(class_: str, xs: Sequence[float], values: Sequence[float | None], y: Callable[[float], float]) -> Markup:
    """A line with gaps where values are missing; a single value between two gaps is drawn as a dot."""
    path = ""
    for run in _runs(values):
        points = [f"{xs[index]:.1f},{y(values[index] or 0):.1f}" for index in run]
        path += "M" + " L".join(points) + ("" if len(points) > 1 else "h0.1")
    return element("path", class_=f"line {class_}", d=path)


def _runs(values: Sequence[float | None]) -> Iterator[range]:
    """The index ranges of consecutive values that are not None."""
    breaks = [-1, *(index for index, value in enumerate(values) if value is None), len(values)]
    for before, after in pairwise(breaks):
        if after > before + 1:
            yield range(before + 1, after)
