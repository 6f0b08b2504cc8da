"""Plots of the benchmark page as SVG text."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

import attrs

from benchmarks.figures import Comparison, Spread

_WIDTH: Final = 860
_OURS, _THEIRS, _NOISE, _GRID, _TEXT = "#2e6f9e", "#c4552d", "#9a9a9a", "#dddddd", "#222222"
_FONT: Final = 12
# The plot of ratios: the names on the left, the values on the right.
_NAMES_WIDTH, _VALUES_WIDTH, _BAR_HEIGHT, _HEAD_HEIGHT = 400, 70, 20, 44
_CHARACTER_WIDTH: Final = 6.2
# The plot of latencies.
_LEFT, _RIGHT, _TOP, _BOTTOM, _PLOT_HEIGHT = 70, 20, 48, 48, 340
_TICKS: Final = (1, 2, 5)


@attrs.frozen
class Line:
    """One curve: (x, spread of y) for each point."""

    label: str
    ours: bool
    dashed: bool
    points: Sequence[tuple[float, Spread]]


def ratios(title: str, rows: Sequence[tuple[str, Comparison]]) -> str:
    """A bar for each ratio, from 1, on a logarithmic scale, with its bounds."""
    bounds = [bound for _, each in rows for bound in (each.low, each.high) if 0 < bound < math.inf]
    low, high = min([*bounds, 0.5]), max([*bounds, 2])
    left, right = _NAMES_WIDTH, _WIDTH - _VALUES_WIDTH
    bottom = _HEAD_HEIGHT + len(rows) * _BAR_HEIGHT
    x = _scale(low, high, left, right)
    parts = [_text(8, 18, title, bold=True)]
    for tick in _ticks(low, high):
        color = _TEXT if tick == 1 else _GRID
        parts.append(f'<path d="M{x(tick):.1f} {_HEAD_HEIGHT - 6}V{bottom}" stroke="{color}"/>')
        parts.append(_text(x(tick), _HEAD_HEIGHT - 10, f"{tick:g}", anchor="middle"))
    for number, (name, each) in enumerate(rows):
        parts += _bar(name, each, x, _HEAD_HEIGHT + number * _BAR_HEIGHT, right)
    return _svg(bottom + 30, title, [*parts, *_legend(left, bottom + 18)])


def _bar(name: str, shown: Comparison, x: Callable[[float], float], top: float, right: float) -> list[str]:
    color = _NOISE if shown.within_the_noise else _OURS if shown.ratio > 1 else _THEIRS
    start, end = sorted((x(1), x(shown.ratio)))
    low, high, middle = x(shown.low), x(shown.high), top + _BAR_HEIGHT / 2
    return [
        _text(_NAMES_WIDTH - 10, middle + 4, _shortened(name), anchor="end"),
        f'<rect x="{start:.1f}" y="{top + 4}" width="{end - start:.1f}" height="{_BAR_HEIGHT - 8}" fill="{color}"/>',
        f'<path d="M{low:.1f} {middle - 4}v8m0-4H{high:.1f}m0-4v8" stroke="{_TEXT}" fill="none"/>',
        _text(right + 10, middle + 4, f"{shown.ratio:.2f}"),
    ]


def _legend(left: float, y: float) -> list[str]:
    parts = []
    for number, (color, words) in enumerate(((_OURS, "better"), (_THEIRS, "worse"), (_NOISE, "within the noise"))):
        at = left + number * 110
        parts.append(f'<rect x="{at}" y="{y - 9}" width="10" height="10" fill="{color}"/>')
        parts.append(_text(at + 15, y, words))
    return parts


def curves(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> str:
    """Curves with a marker and the bounds at each point. The vertical scale is logarithmic."""
    spreads = [spread for line in lines for _, spread in line.points]
    low, high = min(each.low for each in spreads), max(each.high for each in spreads)
    y = _scale(max(low, high / 1e6) / 1.2, high * 1.2, _PLOT_HEIGHT - _BOTTOM, _TOP)
    steps = sorted({at for line in lines for at, _ in line.points})

    def x(at: float) -> float:
        return _LEFT + (at / 100) * (_WIDTH - _LEFT - _RIGHT)

    parts = [_text(8, 18, title, bold=True), _text(8, _TOP - 10, y_label)]
    for tick in _ticks(max(low, high / 1e6) / 1.2, high * 1.2):
        parts.append(f'<path d="M{_LEFT} {y(tick):.1f}H{_WIDTH - _RIGHT}" stroke="{_GRID}"/>')
        parts.append(_text(_LEFT - 8, y(tick) + 4, f"{tick:g}", anchor="end"))
    for at in steps:
        parts.append(_text(x(at), _PLOT_HEIGHT - _BOTTOM + 18, f"{at:g} %", anchor="middle"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _PLOT_HEIGHT - 12, x_label, anchor="middle"))
    legend_at = float(_LEFT)
    for number, line in enumerate(lines):
        parts += _curve(line, x, y, number)
        parts += _line_label(line, legend_at)
        legend_at += 55 + len(line.label) * _CHARACTER_WIDTH
    return _svg(_PLOT_HEIGHT, title, parts)


def _curve(line: Line, x: Callable[[float], float], y: Callable[[float], float], number: int) -> list[str]:
    color, dashes = _stroke(line)
    # Bounds of different curves stand beside each other.
    shift = 3 * (number - 1.5)
    path = "L".join(f"{x(at) + shift:.1f} {y(spread.median):.1f}" for at, spread in line.points)
    parts = [f'<path d="M{path}" stroke="{color}" stroke-width="2" fill="none"{dashes}/>']
    for at, spread in line.points:
        place = x(at) + shift
        parts.append(f'<path d="M{place:.1f} {y(spread.low):.1f}V{y(spread.high):.1f}" stroke="{color}"/>')
        parts.append(f'<circle cx="{place:.1f}" cy="{y(spread.median):.1f}" r="3.5" fill="{color}"/>')
    return parts


def _line_label(line: Line, at: float) -> list[str]:
    color, dashes = _stroke(line)
    return [
        f'<path d="M{at:.1f} {_TOP - 14}h26" stroke="{color}" stroke-width="2"{dashes}/>',
        _text(at + 32, _TOP - 10, line.label),
    ]


def _stroke(line: Line) -> tuple[str, str]:
    return _OURS if line.ours else _THEIRS, ' stroke-dasharray="6 4"' if line.dashed else ""


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """A logarithmic scale from positions to values. Values outside of it are moved to its ends."""

    def place(value: float) -> float:
        bounded = min(max(value, low), high)
        return start + math.log(bounded / low) / math.log(high / low) * (end - start)

    return place


def _ticks(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**exponent for exponent in exponents for step in _TICKS]
    return [tick for tick in ticks if low <= tick <= high]


def _shortened(name: str) -> str:
    length_max = int((_NAMES_WIDTH - 20) / _CHARACTER_WIDTH)
    return name if len(name) <= length_max else name[: length_max - 3] + "..."


def _text(x: float, y: float, words: str, anchor: str = "start", *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    # The background makes the text legible on dark pages.
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title)}" font-family="sans-serif" '
        f'font-size="{_FONT}" fill="{_TEXT}"><rect width="{_WIDTH}" height="{height:g}" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>", ""])
