"""Results: a Markdown table on standard output, and all measurements in a JSON file under benchmarks/results/."""

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine

RESULTS = Path(__file__).with_name("results")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in [head, *rows]
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) if not i else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|")
    return "\n".join(lines)


def number(value: float) -> str:
    """Format with two or three significant digits and separated thousands."""
    if value >= 1000:
        return f"{value:,.0f}"
    if 0 < value < 0.095:
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def save(name: str, data: dict[str, object]) -> Path:
    """Write a run's figures with a description of the machine. Returns the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"machine": machine.describe(), **data}, indent=1))
    return path
