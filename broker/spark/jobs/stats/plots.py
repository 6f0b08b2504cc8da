"""Plots as SVG within a page: lines over time, and bars. They need no script and nothing from the network."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

_WIDTH: Final = 720
_HEIGHT: Final = 180
_LEFT: Final = 64
_BOTTOM: Final = 24
_TOP: Final = 10
_RIGHT: Final = 12
_LINES: Final = 4
_BAR: Final = 18
_LABEL: Final = 190


def plot_over_time(points: Sequence[tuple[int, float]], interval_ms: int, unit: str) -> str:
    """An area of a rate. `points` are (time in ms, value), sorted; a missing interval counts as zero."""
    if not points:
        return ""
    filled = _filled(points, interval_ms)
    first, last = filled[0][0], filled[-1][0] + interval_ms
    highest = _rounded_up(max(value for _, value in filled))

    def x(time_ms: int) -> float:
        return _LEFT + (time_ms - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (1 - value / highest) * (_HEIGHT - _TOP - _BOTTOM)

    steps = [(x(at + end * interval_ms), y(value)) for at, value in filled for end in (0, 1)]
    line = " ".join(f"{left:.1f},{top:.1f}" for left, top in steps)
    area = f"{x(first):.1f},{y(0):.1f} {line} {x(last):.1f},{y(0):.1f}"
    return _svg(
        _HEIGHT,
        f"{unit} over time",
        [
            *_grid(highest, unit, y),
            f'<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/>',
            *(_hover(x(at), x(at + interval_ms), f"{_time(at)}: {_number(value)} {unit}") for at, value in filled),
            _text(_LEFT, _HEIGHT - 6, _time(first), "start"),
            _text(_WIDTH - _RIGHT, _HEIGHT - 6, _time(last), "end"),
        ],
    )


def plot_bars(bars: Sequence[tuple[str, float]], unit: str) -> str:
    """Horizontal bars with their labels, in the order given."""
    if not bars:
        return ""
    highest = max(value for _, value in bars) or 1
    room = _WIDTH - _LABEL - 90
    parts = []
    for index, (label, value) in enumerate(bars):
        top = index * (_BAR + 6) + 4
        width = max(1.0, value / highest * room)
        shown = label if len(label) <= 26 else f"{label[:25]}…"
        parts += [
            _text(_LABEL - 8, top + 13, shown, "end"),
            f'<rect class="bar" x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2">'
            f"<title>{escape(label)}: {_number(value)} {unit}</title></rect>",
            _text(_LABEL + width + 6, top + 13, _number(value), "start"),
        ]
    return _svg(len(bars) * (_BAR + 6) + 8, f"{unit} by label", parts)


def _filled(points: Sequence[tuple[int, float]], interval_ms: int) -> list[tuple[int, float]]:
    values = dict(points)
    return [(at, values.get(at, 0.0)) for at in range(points[0][0], points[-1][0] + 1, interval_ms)]


def _grid(highest: float, unit: str, y: "object") -> list[str]:
    assert callable(y), "a scale"
    parts = []
    for index in range(_LINES + 1):
        value = highest * index / _LINES
        parts += [
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>',
            _text(_LEFT - 6, y(value) + 4, _number(value), "end"),
        ]
    return parts


def _hover(left: float, right: float, told: str) -> str:
    width = max(0.5, right - left)
    height = _HEIGHT - _TOP - _BOTTOM
    return (
        f'<rect class="hover" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}">'
        f"<title>{escape(told)}</title></rect>"
    )


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def _time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _number(value: float) -> str:
    """Formats a number as 1.2k or 3.4M, which is short enough for an axis."""
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _rounded_up(value: float) -> float:
    """Rounds up to 1, 2, 2.5, 5 or 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(power * step for step in (1, 2, 2.5, 5, 10, 20) if value <= power * step)
