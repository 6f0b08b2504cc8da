"""Holds the metrics that clients have pushed, as families of series for Prometheus.

Every scrape pays for the series that clients have pushed. So the bounds count what a scrape writes: series, families,
and the bytes of the text. Each series is written with its own labels only: with the labels of its whole family, series
that have none in common would take the square of their number.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Final, TypeAlias, TypeVar

import attrs

from broker.metrics.exposition import label_text
from broker.telemetry.otlp import Attributes, ClientMetric, DataPoint
from kraft import lazy_attrs

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]


@lazy_attrs.frozen
class SeriesBounds:
    """The numbers of series, of families (names), and of bytes of text in a scrape."""

    series: int
    families: int
    text_bytes: int


# For one client instance. A consumer of 300 partitions has some 2,000 series, of 250 to 500 bytes each. Java's clients
# have up to 150 names, and those of Kafka Streams some more.
CLIENT_BOUNDS: Final = SeriesBounds(series=2_000, families=500, text_bytes=1024 * 1024)
# For all clients of a broker: a scrape of them takes some 100 ms in slices.
BROKER_BOUNDS: Final = SeriesBounds(series=50_000, families=2_000, text_bytes=24 * 1024 * 1024)
# A series ends after so many pushes of its client without it: its attributes have changed, as those of a group's member
# do, or the subscription has.
_PUSHES_WITHOUT_SERIES: Final = 3
# Metrics, points and attributes that are taken over in one step of about 100 us.
_STEP_ITEMS: Final = 64
# A value with its space, and the braces and the end of its line.
_VALUE_BYTES: Final = 28

_PREFIX: Final = "kafka_client_"
_OWN_NAMES: Final = "org.apache.kafka."
_TOTAL: Final = "_total"
_CREATED: Final = "_created"
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]+")


@lazy_attrs.define
class _Use:
    """The series, families and bytes that one client has, or that all clients have."""

    bounds: SeriesBounds
    series: int = 0
    text_bytes: int = 0
    families: Counter[str] = attrs.field(factory=Counter)  # the number of series of each

    def fits(self, family: str, text_bytes: int) -> bool:
        """True if another series is within the bounds."""
        bounds = self.bounds
        return (
            self.series < bounds.series
            and self.text_bytes + text_bytes <= bounds.text_bytes
            and (family in self.families or len(self.families) < bounds.families)
        )

    def add(self, family: str, text_bytes: int) -> None:
        self.series += 1
        self.text_bytes += text_bytes
        self.families[family] += 1

    def remove(self, family: str, text_bytes: int) -> None:
        self.series -= 1
        self.text_bytes -= text_bytes
        self.families[family] -= 1
        if not self.families[family]:
            del self.families[family]


@lazy_attrs.define
class _Series:
    """One series. `metric` is the client's name of it, and `pushed` the number of the client's last push with it."""

    metric: str
    text_bytes: int
    pushed: int
    value: float = 0


@lazy_attrs.define
class _Client:
    """A client instance: its own labels and their text, the number of its pushes, and its series.

    Series are found by their family and the text of their labels.
    """

    labels: Mapping[str, str]
    text: str
    use: _Use
    pushes: int = 0
    series: dict[tuple[str, str], _Series] = attrs.field(factory=dict)

    def label_text(self, attributes: Attributes) -> str:
        """The labels of a series. If attributes have the same name here, the label has the values of all.

        The client's own labels stay as they are, whatever the client pushes.
        """
        values: dict[str, str] = {}
        for attribute, value in attributes:
            name = _label_name(attribute)
            if name not in self.labels:
                values[name] = f"{values[name]};{value}" if name in values else value
        return f"{self.text},{label_text(sorted(values.items()))}" if values else self.text


# All series of one name, by the text of their labels.
_Family: TypeAlias = dict[str, _Series]


@lazy_attrs.frozen
class PushedFamily:
    """The series of one name: the text of their labels, without braces, and their values.

    A counter has the sum of the increments that the client has pushed to this broker. It `is_alone` if no other metric
    has a name that OpenMetrics gives to the counter: that without `_total`, and that with `_created` in its place.
    """

    name: str
    is_counter: bool
    is_alone: bool
    series: Iterator[tuple[str, float]]


class PushedMetrics:
    """The newest values of each client instance.

    `dropped` counts data points beyond the bounds, those whose series another metric or point of the client has, and
    values of counters that are negative or no numbers, which Prometheus' parsers refuse together with all other series.
    """

    def __init__(self, client_bounds: SeriesBounds, bounds: SeriesBounds) -> None:
        self._client_bounds = client_bounds
        self._use = _Use(bounds)
        self._clients: dict[bytes, _Client] = {}
        self._families: dict[str, _Family] = {}
        self.dropped = 0

    @property
    def count(self) -> int:
        """The number of series."""
        return self._use.series

    @property
    def text_bytes(self) -> int:
        """The bytes of all series in a scrape."""
        return self._use.text_bytes

    @property
    def is_full(self) -> bool:
        """True if the bounds of a client that pushes as much as it may are not free."""
        use, client = self._use, self._client_bounds
        return (
            use.series + client.series > use.bounds.series
            or use.text_bytes + client.text_bytes > use.bounds.text_bytes
            or len(use.families) + client.families > use.bounds.families
        )

    def apply(self, instance: bytes, labels: Mapping[str, str], metrics: Sequence[ClientMetric]) -> Steps[None]:
        """Take over the values of one push, in steps. Series that several pushes did not have are removed."""
        client = self._client(instance, labels)
        client.pushes = number = client.pushes + 1
        items = 0
        for metric in metrics:
            name = series_name(metric.name, metric.is_counter)
            items += 1
            for point in metric.points:
                # The client may have been removed since the last step.
                client = self._client(instance, labels)
                client.pushes = number
                if not self._take(client, name, metric, point):
                    self.dropped += 1
                items += 1 + len(point.attributes)
                if items >= _STEP_ITEMS:
                    items = 0
                    yield
            if items >= _STEP_ITEMS:
                items = 0
                yield
        self._remove_stale_series(instance)

    def _client(self, instance: bytes, labels: Mapping[str, str]) -> _Client:
        client = self._clients.get(instance)
        if client is None:
            client = _Client(labels, label_text(labels.items()), _Use(self._client_bounds))
            self._clients[instance] = client
        return client

    def _take(self, client: _Client, name: str, metric: ClientMetric, point: DataPoint) -> bool:
        """Take over a value. False if its series is beyond the bounds, or has a value of this push already, or if a
        counter cannot have it.

        Names such as `a.b` and `a_b` are one name here: the series has the values of the metric that came first.
        """
        if metric.is_counter and not point.value >= 0:
            return False
        text = client.label_text(point.attributes)
        series = client.series.get((name, text)) or self._add(client, name, metric, text)
        if series is None or series.metric != metric.name or series.pushed == client.pushes:
            return False
        series.value = _after(series.value, point.value, metric.is_delta)
        series.pushed = client.pushes
        return True

    def _add(self, client: _Client, name: str, metric: ClientMetric, text: str) -> _Series | None:
        """Add a series with the value 0, unless there are too many."""
        size = len(name) + len(text.encode()) + _VALUE_BYTES
        if not (client.use.fits(name, size) and self._use.fits(name, size)):
            return None
        client.use.add(name, size)
        self._use.add(name, size)
        series = _Series(metric.name, size, client.pushes - 1)
        client.series[name, text] = self._families.setdefault(name, {})[text] = series
        return series

    def _remove_stale_series(self, instance: bytes) -> None:
        client = self._clients.get(instance)
        if client is not None:
            last = client.pushes - _PUSHES_WITHOUT_SERIES
            for key in [key for key, series in client.series.items() if series.pushed <= last]:
                self._remove_series(client, key)

    def remove(self, instance: bytes) -> None:
        """Forget a client instance, if it is known."""
        client = self._clients.pop(instance, None)
        if client is None:
            return
        for key in list(client.series):
            self._remove_series(client, key)

    def _remove_series(self, client: _Client, key: tuple[str, str]) -> None:
        name, text = key
        size = client.series.pop(key).text_bytes
        client.use.remove(name, size)
        self._use.remove(name, size)
        family = self._families[name]
        del family[text]
        if not family:
            del self._families[name]

    def families(self) -> Iterator[PushedFamily]:
        """All families by name. Clients may push, or be removed, between any two series."""
        names = sorted(self._families)
        taken = set(names)
        for name in names:
            is_counter = name.endswith(_TOTAL)
            base = name.removesuffix(_TOTAL)
            is_alone = taken.isdisjoint((base, base + _CREATED))
            if is_counter and is_alone:
                taken.update((base, base + _CREATED))
            family = self._families.get(name)
            if family is not None:
                yield PushedFamily(name, is_counter, is_alone, _current(family))


def _current(family: _Family) -> Iterator[tuple[str, float]]:
    for text in list(family):
        series = family.get(text)
        if series is not None:
            yield text, series.value


def _after(before: float, value: float, is_delta: bool) -> float:
    if not is_delta:
        return value
    return before + value if isfinite(value) else before  # a sum would not recover from an infinite increment


def series_name(metric: str, is_counter: bool) -> str:
    """The name for Prometheus of a client's metric, such as `org.apache.kafka.producer.record.send.total`.

    All names begin with `kafka_client_`, so that no client can push under the name of a node's own metric. The names of
    counters end with `_total`, and those of gauges do not, so that no name has two types.
    """
    name = _PREFIX + _NOT_IN_A_NAME.sub("_", metric.removeprefix(_OWN_NAMES)).strip("_").lower()
    if is_counter:
        return name if name.endswith(_TOTAL) else name + _TOTAL
    return f"{name}_value" if name.endswith(_TOTAL) else name


@lru_cache(maxsize=256)
def _label_name(attribute: str) -> str:
    """A name for Prometheus, which keeps those that begin with two underscores for itself."""
    name = _NOT_IN_A_NAME.sub("_", attribute).lstrip("_")
    return name if name and not name[0].isdigit() else f"_{name}"
