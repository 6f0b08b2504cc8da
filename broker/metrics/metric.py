"""The declaration of a metric, and the values that a scrape finds for it."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from broker.metrics.histogram import Distribution
from kraft import lazy_attrs

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


class MetricType(Enum):
    """A counter only grows while the node runs. A gauge is a value at the time of the scrape."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(Enum):
    """The unit of a metric's values."""

    COUNT = "count"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes per second"
    MILLISECONDS = "ms"
    SECONDS = "seconds"
    RATIO = "ratio"
    PERCENT = "percent"
    OFFSET = "offset"
    BOOLEAN = "0 or 1"


@lazy_attrs.frozen
class Metric:
    """One metric. `mbean` is the object name of Kafka's metric with the same meaning; empty if Kafka has none.

    `name` is spelled as the usual rules of Prometheus' JMX exporter spell Kafka's name; a counter's ends in `_total`.
    OpenMetrics gives a counter the names without that ending, and with `_created` in its place, too: `is_alone` is
    false if another metric has one of them.
    """

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    unit: Unit = Unit.COUNT
    mbean: str = ""
    is_alone: bool = True

    def __attrs_post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), f"{self.name} is not a name of a metric"
        is_total = self.name.endswith("_total")
        assert is_total == (self.type is MetricType.COUNTER), f"{self.name}: counters, and no others, end in _total"

    def single(self, value: "Value") -> "Family":
        """The family of a metric without labels."""
        return self, [Sample((), value)]


Value: TypeAlias = int | float | Distribution


class Sample(NamedTuple):
    """One series of a metric: the values of its labels, in the metric's order, and the value.

    A series with labels of its own has their text instead (`exposition.label_text`).
    """

    labels: tuple[str, ...] | str
    value: Value


# A metric with all of its series. None among them is a step without a series: others may run (`exposition`).
Family: TypeAlias = tuple[Metric, Iterable[Sample | None]]


def counter(
    name: str, help_text: str, *, labels: tuple[str, ...] = (), unit: Unit = Unit.COUNT, mbean: str = ""
) -> Metric:
    return Metric(name, MetricType.COUNTER, help_text, labels, unit, mbean)


def gauge(
    name: str, help_text: str, *, labels: tuple[str, ...] = (), unit: Unit = Unit.COUNT, mbean: str = ""
) -> Metric:
    return Metric(name, MetricType.GAUGE, help_text, labels, unit, mbean)


def histogram(
    name: str, help_text: str, *, labels: tuple[str, ...] = (), unit: Unit = Unit.MILLISECONDS, mbean: str = ""
) -> Metric:
    return Metric(name, MetricType.HISTOGRAM, help_text, labels, unit, mbean)
