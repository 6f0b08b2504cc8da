"""The figures of nodes over several rounds, their spread, and the comparison of two nodes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import attrs

from benchmarks.report import median, number, table

# The ends of the names of figures about CPU time. The rest of the name is that of the load.
SERVER_CPU, CLIENT_CPU = ": server CPU", ": client CPU"
WITHIN_THE_NOISE = "within the noise"
_COMPARED = ("ratio", "aim", "aim is")
_LEGEND = f"""\
ratio: how many times better {{0}} is than {{1}}, by the medians of the rounds; above 1, {{0}} is better.
{WITHIN_THE_NOISE}: the rounds of the two overlap, so that the ratio may be chance.
aim: the smallest ratio that the project accepts."""


@attrs.frozen
class Figure:
    name: str
    unit: str
    value: float
    higher_is_better: bool = True
    aim: float | None = None


@attrs.frozen
class Spread:
    """The median of a figure's rounds, and the smallest and the largest value."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(median(values), min(values), max(values))


@attrs.frozen
class Comparison:
    """How many times better one node's median is than another's, and the bounds that all pairs of rounds lie within.

    The bounds include 1 exactly if the two intervals from the smallest to the largest value overlap. Two nodes that are
    equally good have five rounds each without an overlap in 1 of 126 cases. With quartiles it would be 1 of 5.
    """

    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Spread, theirs: Spread, higher_is_better: bool) -> Self:
        best, other = (ours, theirs) if higher_is_better else (theirs, ours)
        return cls(
            _quotient(best.median, other.median), _quotient(best.low, other.high), _quotient(best.high, other.low)
        )

    @property
    def within_the_noise(self) -> bool:
        return self.low <= 1 <= self.high


def _quotient(a: float, b: float) -> float:
    return a / b if b else float("inf") if a else 1.0


@attrs.define
class Measured:
    """One figure's values per node, in the order of the rounds."""

    name: str
    unit: str
    higher_is_better: bool
    aim: float | None
    values: dict[str, list[float]] = attrs.field(factory=dict)

    def spread(self, node: str) -> Spread | None:
        """None if the node has no value."""
        return Spread.of(self.values[node]) if self.values.get(node) else None

    def comparison(self, nodes: Sequence[str]) -> Comparison | None:
        """The first of two nodes compared with the second. None if one of them has no value."""
        ours, theirs = map(self.spread, nodes)
        return Comparison.of(ours, theirs, self.higher_is_better) if ours and theirs else None


class Series:
    """The values of every figure per node, over the rounds. `failed` has the rounds that failed, as text."""

    def __init__(self, nodes: Sequence[str], measured: Iterable[Measured] = ()) -> None:
        self.nodes = nodes
        self.failed: list[str] = []
        self._measured = {(each.name, each.unit): each for each in measured}

    @property
    def measured(self) -> Sequence[Measured]:
        """In the order in which the figures were first added."""
        return list(self._measured.values())

    def add(self, node: str, figures: Iterable[Figure]) -> None:
        for figure in figures:
            measured = self._measured.setdefault(
                (figure.name, figure.unit), Measured(figure.name, figure.unit, figure.higher_is_better, figure.aim)
            )
            measured.values.setdefault(node, []).append(figure.value)

    def rows(self) -> list[list[str]]:
        """Name, unit, and the median of each node that has the figure; with two nodes also the ratio and its goal."""
        rows = []
        for measured in self._measured.values():
            spreads = map(measured.spread, self.nodes)
            row = [measured.name, measured.unit, *("" if each is None else number(each.median) for each in spreads)]
            if len(self.nodes) == 2:
                row += _compared(measured.comparison(self.nodes), measured.aim)
            rows.append(row)
        return rows

    def table(self) -> str:
        """The rows as a table, which is explained below it if it compares two nodes."""
        is_comparison = len(self.nodes) == 2
        shown = table(["figure", "unit", *self.nodes, *(_COMPARED if is_comparison else ())], self.rows())
        return f"{shown}\n\n{_LEGEND.format(*self.nodes)}" if is_comparison else shown

    def as_json(self) -> list[dict[str, object]]:
        return [
            {
                "figure": each.name,
                "unit": each.unit,
                "higher_is_better": each.higher_is_better,
                "values": {node: [float(f"{value:.5g}") for value in values] for node, values in each.values.items()},
            }
            for each in self._measured.values()
        ]

    @classmethod
    def from_json(cls, nodes: Sequence[str], figures: Iterable[Mapping[str, Any]]) -> Self:
        """The series that `as_json` has described, without the aims."""
        return cls(
            nodes,
            [
                Measured(each["figure"], each["unit"], each["higher_is_better"], None, each["values"])
                for each in figures
            ],
        )


def _compared(comparison: Comparison | None, aim: float | None) -> list[str]:
    if comparison is None:
        return ["", "", ""]
    ratio = f"{comparison.ratio:.2f}"
    # One round has no spread.
    if comparison.low < comparison.high and comparison.within_the_noise:
        ratio += f", {WITHIN_THE_NOISE}"
    if aim is None:
        return [ratio, "", ""]
    return [ratio, f"{aim:.2f}", "met" if comparison.ratio >= aim else "missed"]
