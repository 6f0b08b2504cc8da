"""Clients: their connections, and the quotas they use."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.metrics.catalogue import clients
from broker.metrics.metric import Family, Metric, Sample
from broker.net.acceptor import Acceptor
from broker.quota import BrokerQuotas, QuotaUse
from broker.server.session import UNKNOWN_SOFTWARE
from metadata.controller import QuotaKey

# Names and versions of client software that are listed for each listener, most connections first. Clients choose them
# freely, so that a hostile client could otherwise create as many series as it has connections.
SOFTWARE_MAX: Final = 50
_OTHER: Final = ("other", "other")

_QUOTAS: Final[tuple[tuple[str, Metric, Metric], ...]] = (
    (QuotaKey.PRODUCER_BYTE_RATE, clients.PRODUCE_BYTE_RATE, clients.PRODUCE_THROTTLE_TIME),
    (QuotaKey.CONSUMER_BYTE_RATE, clients.FETCH_BYTE_RATE, clients.FETCH_THROTTLE_TIME),
    (QuotaKey.REQUEST_PERCENTAGE, clients.REQUEST_TIME, clients.REQUEST_THROTTLE_TIME),
)


class ConnectionCollector:
    """Reads the connections of an acceptor."""

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor

    def collect(self) -> Iterable[Family]:
        acceptor = self._acceptor
        counts: Counter[tuple[str, str, str]] = Counter()
        for connection in acceptor.connections:
            software = UNKNOWN_SOFTWARE if connection.session is None else connection.session.client_software
            counts[connection.listener, *software] += 1
        yield clients.CONNECTIONS, [Sample(labels, count) for labels, count in sorted(_bounded(counts).items())]
        yield clients.CONNECTION_COUNT, _by_listener(acceptor.connection_counts)
        yield clients.CONNECTIONS_CREATED, _by_listener(acceptor.accepted)
        yield clients.CONNECTIONS_REFUSED, _by_listener(acceptor.refused)


def _by_listener(counts: Iterable[str] | Counter[str]) -> list[Sample]:
    return [Sample((listener,), count) for listener, count in sorted(Counter(counts).items())]


def _bounded(counts: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str, str]]:
    bounded: Counter[tuple[str, str, str]] = Counter()
    listed: Counter[str] = Counter()
    for (listener, *software), count in counts.most_common():
        listed[listener] += 1
        name, version = software if listed[listener] <= SOFTWARE_MAX else _OTHER
        bounded[listener, name, version] += count
    return bounded


class QuotaCollector:
    """Reads the use of client quotas in the last windows. Idle clients are left out."""

    def __init__(self, quotas: BrokerQuotas) -> None:
        self._quotas = quotas

    def collect(self) -> Iterable[Family]:
        for key, rate, throttle_time in _QUOTAS:
            yield rate, self._samples(key, lambda use: use.rate)
            yield throttle_time, self._samples(key, lambda use: use.throttled_ms / max(1, use.throttled))

    def _samples(self, key: str, value: Callable[[QuotaUse], float]) -> Iterator[Sample | None]:
        for use in self._quotas.uses(key):
            yield None if use is None else Sample(_labels(use), value(use))


def _labels(use: QuotaUse) -> tuple[str, str]:
    return use.user or "", use.client_id or ""
