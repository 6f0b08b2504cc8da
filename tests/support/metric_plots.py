"""Plots of query results as SVG, for docs/images."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import attrs

_WIDTH, _PANEL_HEIGHT = 760, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 78
# Below the graph there are two rows of events and two of the legend.
_EVENT_ROWS, _LEGEND_ROWS = (15, 29), (48, 62)
_CHARACTER_WIDTH = 6.6
# Longer than the time between two values.
_GAP_S = 1.5
_COLORS = ("#2e6f9e", "#c4552d", "#4f8a3c", "#8259a5", "#b58a1b", "#3f8f8f", "#8c5a44", "#666666")


@attrs.frozen
class Plot:
    """The series of one query over time: (labels, [(seconds, value as text)]), with a value for each second."""

    title: str
    series: Sequence[tuple[str, Sequence[Sequence[Any]]]]


def legend(text: str, labels: Mapping[str, str]) -> str:
    """The text with `{{label}}` replaced."""
    for name, value in labels.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def plots(shown: Sequence[Plot], began_s: float, events: Sequence[tuple[float, str]]) -> str:
    """An SVG of the plots below each other. `events` are marked in each, at their times."""
    height = _PANEL_HEIGHT * len(shown)
    until_s = max(float(point[0]) for plot in shown for _, points in plot.series for point in points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{_WIDTH}" height="{height}" fill="white"/>'
    ]
    for number, plot in enumerate(shown):
        parts.append(f'<g transform="translate(0 {number * _PANEL_HEIGHT})">')
        parts += _plot(plot, began_s, until_s, events)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _plot(plot: Plot, began_s: float, until_s: float, events: Sequence[tuple[float, str]]) -> list[str]:
    largest = max((float(value) for _, points in plot.series for _, value in points), default=1.0)
    step = _step(largest)
    highest = step * max(1, math.ceil(largest / step))
    bottom = _PANEL_HEIGHT - _BOTTOM

    def x(at_s: float) -> float:
        return _LEFT + (at_s - began_s) / (until_s - began_s) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (1 - value / highest) * (bottom - _TOP)

    parts = [f'<text x="{_LEFT}" y="18" font-size="13" font-weight="bold">{escape(plot.title)}</text>']
    for number in range(round(highest / step) + 1):
        value = number * step
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>'
        )
    ends = [0.0] * len(_EVENT_ROWS)
    for at_s, event in events:
        text = f"{event}, {at_s - began_s:.0f} s"
        width = _CHARACTER_WIDTH * len(text)
        left = min(x(at_s) + 3, _WIDTH - width)
        row = next((row for row, end in enumerate(ends) if end <= left), len(ends) - 1)
        ends[row] = left + width
        parts.append(
            f'<line x1="{x(at_s):.1f}" x2="{x(at_s):.1f}" y1="{_TOP}" y2="{bottom + 3}" stroke="#999" '
            f'stroke-dasharray="3 3"/><text x="{left:.1f}" y="{bottom + _EVENT_ROWS[row]}" fill="#555">'
            f"{escape(text)}</text>"
        )
    rows, left = iter(_LEGEND_ROWS), float(_WIDTH)
    for (name, points), color in zip(plot.series, _COLORS, strict=False):
        for run in _runs(points):
            line = " ".join(f"{x(at_s):.1f},{y(value):.1f}" for at_s, value in run)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        if left + _CHARACTER_WIDTH * len(name) > _WIDTH:
            row_y, left = bottom + next(rows, _LEGEND_ROWS[-1]), float(_LEFT)
        parts.append(f'<text x="{left:.0f}" y="{row_y}" fill="{color}">{escape(name)}</text>')
        left += 12 + _CHARACTER_WIDTH * len(name)
    return parts


def _runs(points: Sequence[Sequence[Any]]) -> list[list[tuple[float, float]]]:
    """The points without gaps: a node that is down has no values."""
    runs: list[list[tuple[float, float]]] = []
    for at_s, value in points:
        if not runs or float(at_s) - runs[-1][-1][0] > _GAP_S:
            runs.append([])
        runs[-1].append((float(at_s), float(value)))
    return runs


def _step(largest: float) -> float:
    """The distance of the grid's lines: 1, 2 or 5 times a power of ten, with at most five lines."""
    power = 10.0 ** math.floor(math.log10(largest)) if largest > 0 else 1.0
    return next(factor * power for factor in (0.2, 0.5, 1.0, 2.0, 5.0) if largest <= 5 * factor * power)
