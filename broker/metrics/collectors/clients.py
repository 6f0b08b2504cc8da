"""Clients: their connections, and the quotas they use."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from broker.metrics.catalogue import clients
from broker.metrics.metric import Family, Metric, Sample
from broker.net.acceptor import Acceptor
from broker.net.authentication_counts import AuthenticationCounts
from broker.quota import BrokerQuotas, QuotaUse
from broker.server.session import UNKNOWN_SOFTWARE
from metadata.protocol import QuotaKey

# Names and versions of client software that are listed for each listener, most connections first. Clients choose them
# freely, so that a hostile client could otherwise create as many series as it has connections.
SOFTWARE_MAX: Final = 50
_OTHER: Final = ("other", "other")
# Connections that are counted in one step of about 100 us.
STEP_ITEMS: Final = 256

# Listener, and name and version of the client's software.
Software: TypeAlias = tuple[str, str, str]

_QUOTAS: Final[tuple[tuple[str, Metric, Metric], ...]] = (
    (QuotaKey.PRODUCER_BYTE_RATE, clients.PRODUCE_BYTE_RATE, clients.PRODUCE_THROTTLE_TIME),
    (QuotaKey.CONSUMER_BYTE_RATE, clients.FETCH_BYTE_RATE, clients.FETCH_THROTTLE_TIME),
    (QuotaKey.REQUEST_PERCENTAGE, clients.REQUEST_TIME, clients.REQUEST_THROTTLE_TIME),
)


class ConnectionCollector:
    """Reads the connections of an acceptor, and the authentications of their clients."""

    def __init__(self, acceptor: Acceptor, authentications: AuthenticationCounts) -> None:
        self._acceptor = acceptor
        self._authentications = authentications

    def collect(self) -> Iterable[Family]:
        acceptor = self._acceptor
        yield clients.CONNECTIONS, software_samples(self._software())
        yield clients.CONNECTION_COUNT, _by_listener(acceptor.connection_counts)
        yield clients.CONNECTIONS_CREATED, _by_listener(acceptor.accepted)
        yield clients.CONNECTIONS_REFUSED, _by_listener(acceptor.refused)
        counts = self._authentications
        yield clients.AUTHENTICATIONS, _by_listener(counts.succeeded)
        yield clients.FAILED_AUTHENTICATIONS, _by_listener(counts.failed)
        yield clients.REAUTHENTICATIONS, _by_listener(counts.succeeded_again)
        yield clients.FAILED_REAUTHENTICATIONS, _by_listener(counts.failed_again)
        yield clients.EXPIRED_CONNECTIONS, _by_listener(counts.expired)

    def _software(self) -> Iterator[Software]:
        for connection in list(self._acceptor.connections):
            named = UNKNOWN_SOFTWARE if connection.session is None else connection.session.client_software
            yield connection.listener, *named


def software_samples(connections: Iterable[Software]) -> Iterator[Sample | None]:
    """The numbers of connections by listener and software, in steps: there may be 10,000 connections of as many names.

    The rarest software of a listener is counted together.
    """
    counts: Counter[Software] = Counter()
    for number, software in enumerate(connections, 1):
        counts[software] += 1
        if not number % STEP_ITEMS:
            yield None
    bounded: Counter[Software] = Counter()
    listed: Counter[str] = Counter()
    for number, ((listener, name, version), count) in enumerate(counts.most_common(), 1):
        listed[listener] += 1
        bounded[(listener, name, version) if listed[listener] <= SOFTWARE_MAX else (listener, *_OTHER)] += count
        if not number % STEP_ITEMS:
            yield None
    for labels, count in sorted(bounded.items()):
        yield Sample(labels, count)


def _by_listener(counts: Iterable[str] | Counter[str]) -> list[Sample]:
    return [Sample((listener,), count) for listener, count in sorted(Counter(counts).items())]


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
