"""The quotas of clients on one broker: they follow the metadata, and charge each request to the client that sent it.

A quota limits a client per broker, as in Kafka. A client that no quota applies to costs a look at a dictionary.

To record one request takes a quarter of the time in which a small one is served. Clients that are far below their
quota are therefore granted an allowance: bytes that cannot exceed the quota, whenever they are used. The used part is
recorded `_GRANT_SECONDS` later, or when the clients are charged again. Rates are as exact as in Kafka while clients are
near their quota, and this time late otherwise.

A request quota is granted as time, as clients cannot hold the event loop for longer than time passes. Meanwhile the
time for which they hold it is added up by turn, and recorded with the rest.

Clients may share one quota, and have others of their own. So what is granted of a quota of bytes is a reserve, and
clients that share all their quotas draw allowances from it. Theirs end when any of these quotas has no grant any more.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from math import inf
from typing import Final, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import attrs

from broker.quota.long_pauses import LongPauses
from broker.quota.precedence import QuotaShare, QuotaTable, change_tables
from broker.quota.quota_changes import usable_changes
from broker.quota.rates import QuotaWindows, SampledRate, throttle_time_ms
from broker.server.quotas import Allowance, Usage
from broker.server.session import HeldTime, Session
from kraft import lazy_attrs
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import QuotaKey

_PRODUCE, _FETCH = 0, 1
# Requests of brokers, besides a follower's Fetch: WriteTxnMarkers.
_EXEMPT: Final = frozenset({27})
# Rates and clients that are kept before those are dropped that have been idle for all windows.
_KEPT_MIN: Final = 1024
# Idle quotas that are passed over in one step of reading the use of all.
_IDLE_PER_STEP: Final = 64
# The time after which the used part of allowances is recorded: a small part of a window, which is a second or more.
_GRANT_SECONDS: Final = 0.05
# The largest allowance: shortcuts compute with it, and CPython has a faster way for integers of less than 30 bits.
_GRANT_BYTES_MAX: Final = 2**30 - 1
# No time is granted to clients that could exceed their quota by using the event loop for so long.
_GRANT_SECONDS_MAX: Final = 2 * _GRANT_SECONDS


@lazy_attrs.define(eq=False)
class _Usage:
    """The use of a quota of bytes by the clients that share it, and their throttling, since they were last idle.

    `granted` may be used without being recorded; 0 if nothing is granted. The part of it that is neither used nor drawn
    is the `reserve`. `drawn` are the allowances that were drawn since, and that take part in this grant.
    """

    rate: SampledRate
    limit: float
    throttled: int = 0
    throttled_ms: int = 0
    granted: float = 0
    reserve: int = 0
    drawn: "dict[_DrawnAllowance, None]" = attrs.field(factory=dict)

    def use_granted(self, amount: float) -> bool:
        """Use this amount of what is granted. False, with no effect, if not so much is left."""
        left = self.reserve - int(amount)
        if not self.granted or left < 0:
            return False
        self.reserve = left
        return True

    def grant(self, amount: float) -> bool:
        """Grant what may be used without exceeding the quota, if that is more than the last amount."""
        unused = self.rate.unused(self.limit)
        if unused > amount:
            self.granted = self.reserve = int(min(unused, _GRANT_BYTES_MAX))
        return self.granted > 0

    def settle(self, now_ms: float) -> None:
        """Record what was used of the grant, and end it."""
        if self.granted:
            self._end_allowances()
            used = self.granted - self.reserve
            self.granted = self.reserve = 0
            if used:
                self.rate.record(used, now_ms)

    def _end_allowances(self) -> None:
        for allowance in self.drawn:
            allowance.end()
        self.drawn.clear()


@lazy_attrs.define(eq=False)
class _TimeUsage(_Usage):
    """As usage of bytes, of the event loop's time in percent of a second.

    The used part of the grant is added to `held_time`, by the server too, see `Quotas.held_time`. There is no reserve:
    while the grant lasts, less time passes than was granted.
    """

    held_time: HeldTime = attrs.field(factory=HeldTime)

    def use_granted(self, amount: float) -> bool:
        used_s = self.held_time.seconds + amount / 100
        if not self.granted or used_s * 100 > self.granted:
            return False
        self.held_time.seconds = used_s
        return True

    def grant(self, amount: float) -> bool:
        unused = self.rate.unused(self.limit)
        if unused > _GRANT_SECONDS_MAX * 100:
            self.granted = unused
        return self.granted > 0

    def settle(self, now_ms: float) -> None:
        self._end_allowances()
        self.granted = 0
        held_s, self.held_time.seconds = self.held_time.seconds, 0.0
        if held_s:
            self.rate.record(held_s * 100, now_ms)


class _DrawnAllowance(Allowance):
    """The allowance of the clients that share a quota of bytes and a request quota, one of which may be missing."""

    __slots__ = ("_size", "_time")

    def __init__(self, size: _Usage | None, time: _TimeUsage | None) -> None:
        super().__init__()
        self._size = size
        self._time = time

    def draw(self) -> None:
        """Draw half of the reserve, so that others can draw too, if both quotas have grants."""
        size, time = self._size, self._time
        if time is not None:
            if not time.granted:
                return
            time.drawn[self] = None
        if size is None:
            self.left = _GRANT_BYTES_MAX
        elif amount := size.reserve // 2:
            size.reserve -= amount
            self.left += amount
            size.drawn[self] = None

    def end(self) -> None:
        """Return what is left to the reserve."""
        if self._size is not None:
            self._size.reserve += self.left
        self.left = 0


U = TypeVar("U", bound=_Usage)
_Limiting: TypeAlias = tuple[_Usage | None, _TimeUsage | None]


@lazy_attrs.frozen
class QuotaUse:
    """The use of one quota by the clients that share it: `user`, `client_id`, or both. None means any.

    `limit` and `rate` are per second, in bytes or in percent of the event loop's time. `throttled` counts the requests
    that exceeded the quota, `throttled_ms` the time for which their clients had to pause for it.
    """

    key: QuotaKey
    user: str | None
    client_id: str | None
    limit: float
    rate: float
    throttled: int
    throttled_ms: int


class _Meters(Generic[U]):
    """The meters of one key. Those of idle clients are dropped when there are many.

    `new_usage` makes the usage of a rate and a limit. `granted` is called after something was granted.
    """

    def __init__(
        self,
        key: QuotaKey,
        new_usage: Callable[[SampledRate, float], U],
        windows: QuotaWindows,
        granted: Callable[[_Usage], None],
        long_pauses: LongPauses,
        pause_ms_max: float = inf,
    ) -> None:
        self.key = key
        self.table = QuotaTable()
        self._new_usage = new_usage
        self._windows = windows
        self._pause_ms_max = pause_ms_max
        self._granted = granted
        self._long_pauses = long_pauses
        self._usages: dict[QuotaShare, U] = {}
        self._by_client: dict[tuple[str, str], U | None] = {}
        self._kept_max = _KEPT_MIN

    def clear_cached_limits(self) -> None:
        """Quotas have changed: look for the limit of each client again. Rates are kept."""
        self._by_client.clear()

    def charge(self, user: str, client_id: str, amount: float, now_ms: float) -> int:
        """Record usage, and return the pause in ms that brings the rate within the limit; 0 if it is."""
        usage = self.of(user, client_id, now_ms)
        if usage is None or usage.use_granted(amount):
            return 0
        usage.settle(now_ms)
        usage.rate.record(amount, now_ms)
        if usage.grant(amount):
            self._granted(usage)
            return 0
        pause_ms = throttle_time_ms(min(usage.rate.delay_ms(usage.limit, now_ms), self._pause_ms_max))
        if pause_ms:
            usage.throttled += 1
            usage.throttled_ms += pause_ms
            self._long_pauses.note(self.key, self.table, (user, client_id), pause_ms, now_ms)
        return pause_ms

    def unrecord(self, user: str, client_id: str, amount: float, now_ms: float) -> None:
        """Record that an amount was not used after all."""
        usage = self.of(user, client_id, now_ms)
        if usage is not None:
            usage.rate.record(-amount, now_ms)

    def of(self, user: str, client_id: str, now_ms: float) -> U | None:
        """The usage of a client; None if it has no quota."""
        client = (user, client_id)
        try:
            return self._by_client[client]
        except KeyError:
            if len(self._by_client) + len(self._usages) >= self._kept_max:
                self._drop_idle(now_ms)
            usage = self._by_client[client] = self._usage(user, client_id)
            return usage

    def uses(self, now_ms: Callable[[], float]) -> Iterator[QuotaUse | None]:
        """See `BrokerQuotas.uses`."""
        for number, (share, usage) in enumerate(list(self._usages.items()), 1):
            current_ms = now_ms()
            usage.settle(current_ms)
            if not usage.rate.is_idle(current_ms):
                rate = usage.rate.rate(current_ms)
                yield QuotaUse(
                    self.key, share.user, share.client_id, usage.limit, rate, usage.throttled, usage.throttled_ms
                )
            elif not number % _IDLE_PER_STEP:
                yield None

    def _usage(self, user: str, client_id: str) -> U | None:
        applied = self.table.applied(user, client_id)
        if applied is None:
            return None
        usage = self._usages.get(applied.share)
        if usage is None:
            rate = SampledRate(self._windows.num, self._windows.window_ms)
            usage = self._usages[applied.share] = self._new_usage(rate, applied.limit)
        usage.limit = applied.limit
        return usage

    def _drop_idle(self, now_ms: float) -> None:
        self._by_client.clear()
        for usage in self._usages.values():
            usage.settle(now_ms)
        self._usages = {share: usage for share, usage in self._usages.items() if not usage.rate.is_idle(now_ms)}
        self._kept_max = max(_KEPT_MIN, 2 * len(self._usages))


class BrokerQuotas:
    """Implements `broker.server.quotas.Quotas`, and is a metadata publisher.

    `changed` is called after the quotas of users or client ids have changed. `now_ms` is a monotonic time, and
    `call_later` calls back after so many seconds. `ignored_quotas` as in `usable_changes`.
    """

    def __init__(
        self,
        windows: QuotaWindows,
        now_ms: Callable[[], float],
        changed: Callable[[], None],
        call_later: Callable[[float, Callable[[], None]], None],
        trace: Callable[..., None],
        ignored_quotas: Collection[str] = (),
    ) -> None:
        self._ignored_quotas = ignored_quotas
        self._windows = windows
        self._now_ms = now_ms
        self._changed = changed
        self._call_later = call_later
        self._granted: dict[_Usage, None] = {}
        # The server keeps those that it may take from. A quota of bytes may be shared by clients that come and go.
        self._allowances: WeakValueDictionary[_Limiting, _DrawnAllowance] = WeakValueDictionary()
        long_pauses = LongPauses(trace)
        self._produce = _Meters(QuotaKey.PRODUCER_BYTE_RATE, _Usage, windows, self._settle_later, long_pauses)
        self._fetch = _Meters(QuotaKey.CONSUMER_BYTE_RATE, _Usage, windows, self._settle_later, long_pauses)
        self._request = _Meters(
            QuotaKey.REQUEST_PERCENTAGE, _TimeUsage, windows, self._settle_later, long_pauses, windows.window_ms
        )
        self._all = (self._produce, self._fetch, self._request)
        self._by_api: Mapping[int, _Meters[_Usage]] = {}
        self._tables: Mapping[str, QuotaTable] = {
            **{meters.key: meters.table for meters in self._all},
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
        self._settle()
        change_tables(self._tables, usable_changes(delta.client_quotas.changed, self._ignored_quotas))
        for meters in self._all:
            meters.clear_cached_limits()
        self._by_api = {
            api_key: meters for api_key, meters in ((_PRODUCE, self._produce), (_FETCH, self._fetch)) if meters.table
        }
        self._changed()

    @property
    def needs_times(self) -> bool:
        """See `broker.server.quotas.Quotas`."""
        return bool(self._request.table)

    def charge(self, usage: Usage, held_s: float) -> int:
        """See `broker.server.quotas.Quotas`."""
        api_key, is_timed = usage.api_key, self.needs_times
        meters = self._by_api.get(api_key)
        if usage.is_exempt or api_key in _EXEMPT or (meters is None and not is_timed):
            return 0
        now_ms, user, client_id = self._now_ms(), usage.session.user, usage.client_id or ""
        pause_ms = self._request.charge(user, client_id, held_s * 100, now_ms) if is_timed else 0
        if meters is not None:
            size = usage.request_bytes if api_key == _PRODUCE else usage.fetched_bytes
            pause_ms = max(pause_ms, meters.charge(user, client_id, size, now_ms))
            if pause_ms and api_key == _FETCH:  # the response is sent without its records
                meters.unrecord(user, client_id, size, now_ms)
        return pause_ms

    def allowance(self, session: Session, client_id: str | None, api_key: int) -> Allowance | None:
        """See `broker.server.quotas.Quotas`."""
        meters, now_ms = self._by_api.get(api_key), self._now_ms()
        size = None if meters is None else meters.of(session.user, client_id or "", now_ms)
        time = self._request.of(session.user, client_id or "", now_ms) if self.needs_times else None
        if size is None and time is None:
            return None
        allowance = self._allowances.get((size, time))
        if allowance is None:
            allowance = self._allowances[size, time] = _DrawnAllowance(size, time)
        allowance.draw()
        return allowance

    def held_time(self, session: Session, client_id: str | None) -> HeldTime | None:
        """See `broker.server.quotas.Quotas`."""
        usage = self._request.of(session.user, client_id or "", self._now_ms())
        return None if usage is None else usage.held_time

    def _settle_later(self, usage: _Usage) -> None:
        if not self._granted:
            self._call_later(_GRANT_SECONDS, self._settle)
        self._granted[usage] = None

    def _settle(self) -> None:
        """Record what was used of all grants."""
        now_ms, granted, self._granted = self._now_ms(), self._granted, {}
        for usage in granted:
            usage.settle(now_ms)

    def charge_time(self, session: Session, client_id: str | None, held_s: float) -> None:
        """See `broker.server.quotas.Quotas`."""
        if self._request.table:
            now_ms = self._now_ms()
            usage = self._request.of(session.user, client_id or "", now_ms)
            if usage is not None and not usage.use_granted(held_s * 100):
                usage.rate.record(held_s * 100, now_ms)

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        """See `broker.server.quotas.Quotas`."""
        usage = self._fetch.of(session.user, client_id or "", self._now_ms()) if self._fetch.table else None
        return inf if usage is None else usage.limit * self._windows.burst_seconds

    def uses(self, key: str) -> Iterator[QuotaUse | None]:
        """The use of each quota of this kind that clients have used in the last windows.

        Other tasks may run between two of them. None stands for some that are idle, so that these take no long step.
        """
        for meters in self._all:
            if meters.key == key:
                yield from meters.uses(self._now_ms)
