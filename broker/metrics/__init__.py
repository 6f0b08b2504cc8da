"""Metrics for operators: the catalogue of all metrics, the values gathered at a scrape, and their text format.

`catalogue` declares every metric once. `/metrics`, docs/metrics.md, the dashboard and the alert rules are made from it.
`collectors` read the values from the state of the node when they are asked for, so a metric costs nothing in between.
`http` serves them.
"""

from broker.metrics.exposition import OPEN_METRICS, TEXT, Format, exposition
from broker.metrics.histogram import Distribution, Histogram
from broker.metrics.metric import Family, Metric, MetricType, Sample, Unit, Value, counter, gauge, histogram
from broker.metrics.registry import Collector, MetricsRegistry

__all__ = [
    "OPEN_METRICS",
    "TEXT",
    "Collector",
    "Distribution",
    "Family",
    "Format",
    "Histogram",
    "Metric",
    "MetricType",
    "MetricsRegistry",
    "Sample",
    "Unit",
    "Value",
    "counter",
    "exposition",
    "gauge",
    "histogram",
]
