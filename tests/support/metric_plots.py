"""Plots of query results as SVG, for docs/images."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import attrs

_WIDTH, _PANEL_HEIGHT = 760, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 40
_COLORS = ("#2e6f9e", "#c4552d", "#4f8a3c", "#8259a5", "#b58a1b", "#3f8f8f", "#8c5a44", "#666666")


@attrs.frozen
class Plot:
    """The series of one query over time: (labels, [(seconds, value as text)])."""

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
    highest = max((float(value) for _, points in plot.series for _, value in points), default=1.0) or 1.0
    bottom = _PANEL_HEIGHT - _BOTTOM

    def x(at_s: float) -> float:
        return _LEFT + (at_s - began_s) / (until_s - began_s) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (1 - value / highest) * (bottom - _TOP)

    parts = [f'<text x="{_LEFT}" y="18" font-size="13" font-weight="bold">{escape(plot.title)}</text>']
    for step in range(5):
        value = highest * step / 4
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>'
        )
    for at_s, text in events:
        parts.append(
            f'<line x1="{x(at_s):.1f}" x2="{x(at_s):.1f}" y1="{_TOP}" y2="{bottom}" stroke="#999" '
            f'stroke-dasharray="3 3"/><text x="{x(at_s) + 3:.1f}" y="{bottom + 12}" fill="#555">{escape(text)}</text>'
        )
    left = float(_LEFT)
    for number, (name, points) in enumerate(plot.series[: len(_COLORS)]):
        line = " ".join(f"{x(float(at_s)):.1f},{y(float(value)):.1f}" for at_s, value in points)
        color = _COLORS[number]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        parts.append(f'<text x="{left:.0f}" y="{bottom + 28}" fill="{color}">{escape(name)}</text>')
        left += 12 + 6.2 * len(name)
    return parts
