"""Holds the metrics that clients have pushed, as families of series for Prometheus."""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Final, TypeAlias, TypeVar

import attrs

from broker.telemetry.otlp import Attributes, ClientMetric

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

# Series of one client instance: a consumer of 300 partitions has some 2,000.
CLIENT_SERIES_MAX: Final = 2_000
# Series of all clients of a broker, some 500 bytes each: 25 MB.
SERIES_MAX: Final = 50_000
# A series ends after so many pushes of its client without it: its attributes have changed, as those of a group's member
# do, or the subscription has.
_PUSHES_WITHOUT_SERIES: Final = 3
# Data points that are taken over in one step of about 100 us.
_STEP_POINTS: Final = 32

_PREFIX: Final = "kafka_client_"
_OWN_NAMES: Final = "org.apache.kafka."
_TOTAL: Final = "_total"
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]+")


@attrs.define
class _Client:
    """A client instance: its labels, the number of its pushes, and for each of its series that of the last one."""

    labels: Mapping[str, str]
    pushes: int = 0
    series: dict[tuple[str, Attributes], int] = attrs.field(factory=dict)


@attrs.define
class _Family:
    """All series of one name: the names of their labels, and the values by client instance and attributes."""

    label_names: dict[str, None] = attrs.field(factory=dict)
    values: dict[tuple[bytes, Attributes], float] = attrs.field(factory=dict)


@attrs.frozen
class PushedFamily:
    """The series of one name: the values of `label_names`, of which a series may leave some empty, and its value.

    A counter has the sum of the increments that the client has pushed to this broker.
    """

    name: str
    is_counter: bool
    label_names: tuple[str, ...]
    series: Iterator[tuple[tuple[str, ...], float]]


class PushedMetrics:
    """The newest values of each client instance. `dropped` counts data points beyond the bounds on series."""

    def __init__(self, client_series_max: int = CLIENT_SERIES_MAX, series_max: int = SERIES_MAX) -> None:
        self._client_series_max = client_series_max
        self._series_max = series_max
        self._clients: dict[bytes, _Client] = {}
        self._families: dict[str, _Family] = {}
        self.count = 0
        self.dropped = 0

    def apply(self, instance: bytes, labels: Mapping[str, str], metrics: Sequence[ClientMetric]) -> Steps[None]:
        """Take over the values of one push, in steps. Series that several pushes did not have are removed."""
        taken = 0
        self._clients.setdefault(instance, _Client(labels)).pushes += 1
        for metric in metrics:
            name = series_name(metric.name, metric.is_counter)
            for point in metric.points:
                # The client may have been removed since the last step.
                client = self._clients.get(instance) or self._clients.setdefault(instance, _Client(labels))
                attributes = tuple((_label_name(each), text) for each, text in point.attributes)
                if (name, attributes) in client.series or self._add(instance, client, name, attributes):
                    values = self._families[name].values
                    values[instance, attributes] = _after(values[instance, attributes], point.value, metric.is_delta)
                    client.series[name, attributes] = client.pushes
                taken += 1
                if not taken % _STEP_POINTS:
                    yield
        self._remove_stale_series(instance)

    def _remove_stale_series(self, instance: bytes) -> None:
        client = self._clients.get(instance)
        if client is not None:
            last = client.pushes - _PUSHES_WITHOUT_SERIES
            for key in [key for key, pushed in client.series.items() if pushed <= last]:
                self._remove_series(instance, client, key)

    def _add(self, instance: bytes, client: _Client, name: str, attributes: Attributes) -> bool:
        """Add a series with the value 0, unless there are too many."""
        if len(client.series) >= self._client_series_max or self.count >= self._series_max:
            self.dropped += 1
            return False
        self.count += 1
        family = self._families.setdefault(name, _Family())
        family.values[instance, attributes] = 0
        family.label_names.update(dict.fromkeys(client.labels))
        family.label_names.update(dict.fromkeys(each for each, _ in attributes))
        return True

    def remove(self, instance: bytes) -> None:
        """Forget a client instance, if it is known."""
        client = self._clients.pop(instance, None)
        if client is None:
            return
        for key in list(client.series):
            self._remove_series(instance, client, key)

    def _remove_series(self, instance: bytes, client: _Client, key: tuple[str, Attributes]) -> None:
        name, attributes = key
        del client.series[key]
        self.count -= 1
        family = self._families[name]
        del family.values[instance, attributes]
        if not family.values:
            del self._families[name]

    def families(self) -> Iterator[PushedFamily]:
        """All families by name. Clients may push, or be removed, between any two series."""
        for name in sorted(self._families):
            family = self._families.get(name)
            if family is not None:
                label_names = tuple(family.label_names)
                yield PushedFamily(name, name.endswith(_TOTAL), label_names, self._series(family, label_names))

    def _series(self, family: _Family, label_names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
        for (instance, attributes), value in list(family.values.items()):
            client = self._clients.get(instance)
            if client is not None:
                labels = {**dict(attributes), **client.labels}
                yield tuple([labels.get(each, "") for each in label_names]), value


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
