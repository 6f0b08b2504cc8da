"""Limits how many connections per second a broker accepts: in all, by listener, and by address (KIP-612)."""

from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address
from typing import Final

from broker.net.admission import RateExcess
from broker.quota.quota_changes import usable_changes
from broker.quota.rates import QuotaWindows, SampledRate, throttle_time_ms
from metadata.controller import QuotaEntityType
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import QuotaKey

# The value of `max.connection.creation.rate` without a limit.
UNLIMITED: Final = 2**31 - 1
# Addresses whose rates are kept before idle ones are dropped.
_KEPT_MIN: Final = 1024


class ConnectionRates:
    """Implements `broker.net.admission.ConnectionRates`, and is a metadata publisher. `now_ms` is a monotonic time.
    `ignored_quotas` as in `usable_changes`.

    Pauses are one window at most, as in Kafka.
    """

    def __init__(
        self, windows: QuotaWindows, now_ms: Callable[[], float], ignored_quotas: Collection[str] = ()
    ) -> None:
        self._windows = windows
        self._ignored_quotas = ignored_quotas
        self._now_ms = now_ms
        self._node_max = UNLIMITED
        self._listener_max: Mapping[str, int] = {}
        self._address_max: dict[str | None, float] = {}
        self._node = self._new_rate()
        self._listeners: dict[str, SampledRate] = {}
        self._addresses: dict[str, SampledRate] = {}
        self._kept_max = _KEPT_MIN

    def limit(self, node_max: int, listener_max: Mapping[str, int]) -> None:
        """Apply the values of `max.connection.creation.rate`, of the node and by listener."""
        self._node_max, self._listener_max = node_max, listener_max

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed quotas of addresses to the next connection."""
        for entity, quotas in usable_changes(delta.client_quotas.changed, self._ignored_quotas).items():
            names = dict(entity)
            if QuotaEntityType.IP in names and QuotaKey.CONNECTION_CREATION_RATE in quotas:
                address = canonical_address(names[QuotaEntityType.IP])
                limit = quotas[QuotaKey.CONNECTION_CREATION_RATE]
                if limit is None:
                    self._address_max.pop(address, None)
                else:
                    self._address_max[address] = limit

    def count(self, listener: str) -> None:
        """See `broker.net.admission.ConnectionRates`."""
        self._of_listener(listener).record(1, self._now_ms())

    def admit(self, listener: str, address: str) -> RateExcess | None:
        """See `broker.net.admission.ConnectionRates`."""
        now_ms = self._now_ms()
        of_listener = self._of_listener(listener)
        limits: list[tuple[SampledRate, float]] = [
            (of_listener, self._listener_max.get(listener, UNLIMITED)),
            (self._node, self._node_max),
        ]
        pause_ms = max(self._record(rate, limit, now_ms) for rate, limit in limits)
        is_of_address = False
        limit = self._address_max.get(address, self._address_max.get(None)) if self._address_max else None
        if not pause_ms and limit is not None:
            limits.append((self._of_address(address, now_ms), limit))
            pause_ms, is_of_address = self._record(*limits[-1], now_ms), True
        if not pause_ms:
            return None
        for rate, _ in limits:
            rate.record(-1, now_ms)
        return RateExcess(pause_ms, is_of_address)

    @property
    def node_rate(self) -> float:
        """The connections per second that `max.connection.creation.rate` limits, over the last windows."""
        return self._node.rate(self._now_ms())

    @property
    def listener_rates(self) -> dict[str, float]:
        """The connections per second by listener."""
        return {name: rate.rate(self._now_ms()) for name, rate in self._listeners.items()}

    def _of_listener(self, listener: str) -> SampledRate:
        rate = self._listeners.get(listener)
        if rate is None:
            rate = self._listeners[listener] = self._new_rate()
        return rate

    def _of_address(self, address: str, now_ms: float) -> SampledRate:
        rate = self._addresses.get(address)
        if rate is None:
            if len(self._addresses) >= self._kept_max:
                self._drop_idle(now_ms)
            rate = self._addresses[address] = self._new_rate()
        return rate

    def _record(self, rate: SampledRate, limit: float, now_ms: float) -> int:
        rate.record(1, now_ms)
        if limit >= UNLIMITED:
            return 0
        return min(throttle_time_ms(rate.delay_ms(limit, now_ms)), self._windows.window_ms)

    def _new_rate(self) -> SampledRate:
        return SampledRate(self._windows.num, self._windows.window_ms)

    def _drop_idle(self, now_ms: float) -> None:
        self._addresses = {name: rate for name, rate in self._addresses.items() if not rate.is_idle(now_ms)}
        self._kept_max = max(_KEPT_MIN, 2 * len(self._addresses))


def canonical_address(name: str | None) -> str | None:
    """An address as sockets tell it, which need not be the text that a client has sent; None is the default one."""
    return None if name is None else str(ip_address(name))
