"""The text formats of Prometheus: its own, version 0.0.4, and OpenMetrics 1.0.

https://prometheus.io/docs/instrumenting/exposition_formats and
https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from collections.abc import Iterable, Iterator
from math import inf, isnan
from typing import Final, NamedTuple

from broker.metrics.histogram import Distribution
from broker.metrics.metric import Metric, MetricType, Sample, Value

# Series that are written in one step. A series takes about a microsecond, and one of a histogram about ten.
STEP_SAMPLES: Final = 64


class Format(NamedTuple):
    """A text format: the Content-Type, and whether it is OpenMetrics."""

    content_type: str
    is_open_metrics: bool


TEXT: Final = Format("text/plain; version=0.0.4; charset=utf-8", False)
OPEN_METRICS: Final = Format("application/openmetrics-text; version=1.0.0; charset=utf-8", True)


def exposition(families: Iterable[tuple[Metric, Iterable[Sample | None]]], text_format: Format) -> Iterator[str]:
    """The text in pieces of some kilobytes. Other tasks may run between two pieces, which may be empty."""
    for metric, samples in families:
        yield _head(metric, text_format)
        write = _write_histogram if metric.type is MetricType.HISTOGRAM else _write_value
        remaining = iter(samples)
        names = [f'{name}="' for name in metric.labels]
        is_exhausted = False
        while not is_exhausted:
            lines: list[str] = []
            is_exhausted = True
            for sample in remaining:
                if sample is not None:
                    labels = sample.labels
                    text = labels if isinstance(labels, str) else _labels(names, labels)
                    lines.append(write(metric.name, text, sample.value))
                if sample is None or len(lines) == STEP_SAMPLES:
                    is_exhausted = False
                    break
            yield "".join(lines)
    if text_format.is_open_metrics:
        yield "# EOF\n"


def _head(metric: Metric, text_format: Format) -> str:
    """The lines before the series. A counter that is not alone has no type in OpenMetrics, and so one name only."""
    name, kind = metric.name, metric.type.value
    if text_format.is_open_metrics and metric.type is MetricType.COUNTER:
        name, kind = (name.removesuffix("_total"), kind) if metric.is_alone else (name, "unknown")
    help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    if text_format.is_open_metrics:
        help_text = help_text.replace('"', '\\"')
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"


def label_text(labels: Iterable[tuple[str, str]]) -> str:
    """The names and values of labels, as they stand between the braces of a series."""
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in labels])


def _labels(names: list[str], values: tuple[str, ...]) -> str:
    """The labels without their braces."""
    return ",".join([f'{name}{_escaped(value)}"' for name, value in zip(names, values, strict=True)])


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def _write_value(name: str, labels: str, value: Value) -> str:
    assert not isinstance(value, Distribution), f"{name} is no histogram"
    return f"{name}{{{labels}}} {_number(value)}\n" if labels else f"{name} {_number(value)}\n"


def _write_histogram(name: str, labels: str, value: Value) -> str:
    assert isinstance(value, Distribution), f"{name} is a histogram"
    lines, count = [], 0
    comma = f"{labels}," if labels else ""
    for bound, in_bucket in zip((*value.bounds, inf), value.counts, strict=True):
        count += in_bucket
        lines.append(f'{name}_bucket{{{comma}le="{_number(float(bound))}"}} {count}\n')
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_count{braces} {count}\n{name}_sum{braces} {_number(value.total)}\n")
    return "".join(lines)


def _number(value: float) -> str:
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if isnan(value) else repr(value)
