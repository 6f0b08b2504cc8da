"""Expressions of PromQL about metrics of the catalogue."""

from collections.abc import Mapping

from broker.metrics.metric import Metric, MetricType


def selector(name: str, where: Mapping[str, str]) -> str:
    """The series with these labels."""
    labels = ",".join(f'{label}="{value}"' for label, value in where.items())
    return f"{name}{{{labels}}}" if labels else name


def rate(metric: Metric, window: str, *, by: tuple[str, ...] = (), where: Mapping[str, str] | None = None) -> str:
    """How much a counter grows in a second, added up by these labels."""
    assert metric.type is MetricType.COUNTER, f"{metric.name} is no counter"
    return f"sum by ({', '.join(by)}) (rate({selector(metric.name, where or {})}[{window}]))"


def total(metric: Metric, *, by: tuple[str, ...] = ()) -> str:
    """The values of a gauge, added up by these labels."""
    return f"sum by ({', '.join(by)}) ({metric.name})"


def quantile(
    q: float, metric: Metric, window: str, *, by: tuple[str, ...] = (), where: Mapping[str, str] | None = None
) -> str:
    """A quantile of a histogram, by these labels."""
    assert metric.type is MetricType.HISTOGRAM, f"{metric.name} is no histogram"
    buckets = selector(f"{metric.name}_bucket", where or {})
    return f"histogram_quantile({q}, sum by ({', '.join((*by, 'le'))}) (rate({buckets}[{window}])))"


def mean(metric: Metric, window: str, *, by: tuple[str, ...]) -> str:
    """The mean of a histogram's values, by these labels."""
    assert metric.type is MetricType.HISTOGRAM, f"{metric.name} is no histogram"
    labels = ", ".join(by)
    sums, counts = (f"sum by ({labels}) (rate({metric.name}_{part}[{window}]))" for part in ("sum", "count"))
    return f"{sums} / {counts}"
