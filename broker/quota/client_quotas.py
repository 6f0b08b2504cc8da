"""The quotas of clients on one broker: they follow the metadata, and charge each request to the client that sent it.

A quota limits a client per broker, as in Kafka. A client that no quota applies to costs a look at a dictionary.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import attrs

from broker.quota.precedence import QuotaShare, QuotaTable, change_tables
from broker.quota.sampled_rate import SampledRate
from broker.quota.windows import QuotaWindows, throttle_time_ms
from broker.server.quotas import Usage
from broker.server.session import Session
from metadata.controller import QuotaKey
from metadata.image import MetadataDelta, MetadataImage

_PRODUCE, _FETCH = 0, 1
# Requests of brokers, besides a follower's Fetch: WriteTxnMarkers.
_EXEMPT: Final = frozenset({27})
# Rates and clients that are kept before those are dropped that have been idle for all windows.
_KEPT_MIN: Final = 1024


@attrs.frozen
class _Meter:
    """The limit per second of a client, and the rate that it shares with others."""

    limit: float
    rate: SampledRate

    def record(self, amount: float, now_ms: float) -> float:
        """Record usage, and return the pause in ms that brings the rate within the limit; 0 or less if it is."""
        self.rate.record(amount, now_ms)
        return self.rate.delay_ms(self.limit, now_ms)


class _Meters:
    """The meters of one key. Those of idle clients are dropped when there are many."""

    def __init__(self, windows: QuotaWindows) -> None:
        self.table = QuotaTable()
        self._windows = windows
        self._rates: dict[QuotaShare, SampledRate] = {}
        self._by_client: dict[tuple[str, str], _Meter | None] = {}
        self._kept_max = _KEPT_MIN

    def forget_limits(self) -> None:
        """Quotas have changed: look for the limit of each client again. Rates are kept."""
        self._by_client.clear()

    def of(self, user: str, client_id: str, now_ms: float) -> _Meter | None:
        """The meter of a client; None if it has no quota."""
        client = (user, client_id)
        try:
            return self._by_client[client]
        except KeyError:
            if len(self._by_client) + len(self._rates) >= self._kept_max:
                self._drop_idle(now_ms)
            meter = self._by_client[client] = self._meter(user, client_id)
            return meter

    def _meter(self, user: str, client_id: str) -> _Meter | None:
        applied = self.table.applied(user, client_id)
        if applied is None:
            return None
        rate = self._rates.get(applied.share)
        if rate is None:
            rate = self._rates[applied.share] = SampledRate(self._windows.num, self._windows.window_ms)
        return _Meter(applied.limit, rate)

    def _drop_idle(self, now_ms: float) -> None:
        self._by_client.clear()
        self._rates = {share: rate for share, rate in self._rates.items() if not rate.is_idle(now_ms)}
        self._kept_max = max(_KEPT_MIN, 2 * len(self._rates))


class BrokerQuotas:
    """Implements `broker.server.quotas.Quotas`, and is a metadata publisher.

    `changed` is called after the quotas of users or client ids have changed. `now_ms` is a monotonic time.
    """

    def __init__(self, windows: QuotaWindows, now_ms: Callable[[], float], changed: Callable[[], None]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._changed = changed
        self._produce, self._fetch, self._request = _Meters(windows), _Meters(windows), _Meters(windows)
        self._tables: Mapping[str, QuotaTable] = {
            QuotaKey.PRODUCER_BYTE_RATE: self._produce.table,
            QuotaKey.CONSUMER_BYTE_RATE: self._fetch.table,
            QuotaKey.REQUEST_PERCENTAGE: self._request.table,
            # The controller enforces it; the broker mutes the client for the time in the controller's response.
            QuotaKey.CONTROLLER_MUTATION_RATE: QuotaTable(),
        }

    @property
    def any_set(self) -> bool:
        """True if any user or client id has a quota."""
        return any(self._tables.values())

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed quotas to the next request of every client."""
        if not delta.client_quotas.changed:
            return
        change_tables(self._tables, delta.client_quotas.changed)
        for meters in (self._produce, self._fetch, self._request):
            meters.forget_limits()
        self._changed()

    @property
    def needs_times(self) -> bool:
        """See `broker.server.quotas.Quotas`."""
        return bool(self._request.table)

    def charge(self, usage: Usage, held_s: float) -> int:
        """See `broker.server.quotas.Quotas`."""
        if usage.is_exempt or usage.api_key in _EXEMPT:
            return 0
        now_ms = self._now_ms()
        for_time_ms = self._charge_time(usage.session, usage.client_id, held_s, now_ms)
        if usage.api_key == _PRODUCE:
            return max(for_time_ms, self._charge_bytes(self._produce, usage, usage.request_bytes, now_ms))
        if usage.api_key != _FETCH:
            return for_time_ms
        pause_ms = max(for_time_ms, self._charge_bytes(self._fetch, usage, usage.fetched_bytes, now_ms))
        if pause_ms:  # the response is sent without its records
            self._charge_bytes(self._fetch, usage, -usage.fetched_bytes, now_ms)
        return pause_ms

    def charge_time(self, session: Session, client_id: str | None, held_s: float) -> None:
        """See `broker.server.quotas.Quotas`."""
        self._charge_time(session, client_id, held_s, self._now_ms())

    def _charge_time(self, session: Session, client_id: str | None, held_s: float, now_ms: float) -> int:
        """Charge time of the event loop in percent, and return the throttle time: at most one window, as in Kafka."""
        meter = self._meter(self._request, session, client_id, now_ms)
        if meter is None:
            return 0
        return min(throttle_time_ms(meter.record(held_s * 100, now_ms)), self._windows.window_ms)

    def _charge_bytes(self, meters: _Meters, usage: Usage, amount: int, now_ms: float) -> int:
        meter = self._meter(meters, usage.session, usage.client_id, now_ms)
        return 0 if meter is None else throttle_time_ms(meter.record(amount, now_ms))

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        """See `broker.server.quotas.Quotas`."""
        meter = self._meter(self._fetch, session, client_id, self._now_ms())
        return inf if meter is None else meter.limit * self._windows.burst_seconds

    def _meter(self, meters: _Meters, session: Session, client_id: str | None, now_ms: float) -> _Meter | None:
        return meters.of(session.user, client_id or "", now_ms) if meters.table else None
