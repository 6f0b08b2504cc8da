"""The port to client quotas, and the throttling of clients that exceed one (KIP-219).

A request is always answered at once, with the time in `throttle_time_ms` for which its client exceeds a quota. The
client's connection is muted for that time: none of its requests are carried out, and nothing is read from it.
"""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from itertools import cycle
from types import coroutine
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import trio

from broker.net.deadlines import Deadlines
from broker.net.driven_connection import DrivenConnection
from broker.server.session import HeldTime, Session

T = TypeVar("T")

# The turns that are skipped after a measured one, in a cycle of 199 turns: turns may come in a rhythm of the clients'
# number, and a prime number of turns meets all of them.
_SKIPS: Final = (17, 37, 23, 31, 19, 41, 24)
# The time by which a measured turn may count for each of those that were skipped before it: what takes longer than
# usual requests is seldom, and counts once.
_WEIGHTED_S_MAX: Final = 0.001


class Usage(NamedTuple):
    """One request that was carried out. Sizes are in bytes, without the four of a frame's length.

    `fetched_bytes` is the size of a Fetch response with its length, and without its header. `is_exempt` says that the
    request is to be counted, and its client not to be throttled for it: a follower replicates under a quota of its own.
    A tuple is made in a third of the time that a frozen class of attrs takes, and there is one for each request.
    """

    session: Session
    client_id: str | None
    api_key: int
    api_version: int
    request_bytes: int
    fetched_bytes: int = 0
    is_exempt: bool = False


class Allowance:
    """Bytes that clients may use without being charged one request at a time: they are far below their quotas.

    A request need not be charged if so many bytes are `left`, which it then takes. A shortcut does that itself, because
    a call takes longer. `Quotas` records soon how much was used.
    """

    __slots__ = ("__weakref__", "left")

    def __init__(self) -> None:
        self.left = 0


class Quotas(Protocol):
    """Keeps account of what clients use. A server without quotas charges nothing, and measures nothing.

    When the quotas of clients change, `Dispatcher.access_changed` has to be called.
    """

    @property
    def needs_times(self) -> bool:
        """True if the time for which requests hold the event loop has to be measured."""
        ...

    def charge(self, usage: Usage, held_s: float) -> int:
        """Record a request, and return for how many milliseconds its client has to pause; 0 within its quotas.

        A Fetch response for which this is not 0 is sent without its records, so it is not to be counted then.
        `held_s` is the time for which the request has held the event loop, as far as it is not charged yet.
        """
        ...

    def allowance(self, session: Session, client_id: str | None, api_key: int) -> Allowance | None:
        """The allowance for Produce or Fetch requests of a client, from which its shortcut takes before it charges.

        None if such requests need not be charged at all. Valid until the client is charged, or quotas change.
        """
        ...

    def held_time(self, session: Session, client_id: str | None) -> HeldTime | None:
        """The time for which a client has held the event loop, to add more to it; None without a request quota.

        It is recorded when the client is charged, or soon. Valid until the client is charged again.
        """
        ...

    def charge_time(self, session: Session, client_id: str | None, held_s: float) -> None:
        """Record more time for which requests of a client have held the event loop, without throttling it now."""
        ...

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        """How many bytes of records one Fetch may return without exceeding a quota in any case; inf without a quota.

        A larger response would be held back again and again, and its consumer would never get on.
        """
        ...


class MutationQuotas(Protocol):
    """Limits the partitions that clients create and delete (KIP-599)."""

    def charge(
        self, session: Session, client_id: str | None, api_key: int, api_version: int, count: int
    ) -> tuple[bool, int]:
        """Charge a client for `count` partitions. Returns whether the change may be made, and the throttle time in ms.

        A change is refused only if the client knows the error, by the version of its request. Others have to pause.
        """
        ...


class Throttling:
    """Mutes the connections of clients that have to pause."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def throttle(self, session: Session, throttle_time_ms: int) -> None:
        """Mute the session's connection for this time from now on, if it is not muted for longer already."""
        connection = session.connection
        until = trio.current_time() + throttle_time_ms / 1000
        if throttle_time_ms <= 0 or until <= session.throttled_until:
            return
        if connection is None or connection.closed:
            return  # the client of another node is muted there
        session.throttled_until = until
        connection.throttle()
        self._deadlines.add(until, lambda: self._end_throttle(session))

    def _end_throttle(self, session: Session) -> None:
        if session.connection is not None and trio.current_time() >= session.throttled_until:
            session.connection.end_throttle()


class Charging(Throttling):
    """Charges requests to their clients, and mutes the connections of those that exceed a quota.

    If a client has a request quota, `is_timed`, the server says when it begins and ends to work on a request outside of
    its shortcut; for those, this is the `broker.net.connection_scheduler.LoopMeter`. To measure a turn takes a tenth of
    the time of a small request, so one turn of 28 is measured while no client is near its quotas. Without
    request quotas it measures nothing.
    """

    def __init__(self, quotas: Quotas, deadlines: Deadlines) -> None:
        super().__init__(deadlines)
        self._quotas = quotas
        self.is_timed = quotas.needs_times
        self._began_s: float | None = None
        self.turns_to_skip = self._skipped = 0
        self._has_charged = False
        self._skips = cycle(_SKIPS)
        # Trio's `current_time` looks for this clock at each call, which takes twice as long.
        self._clock_s = trio.lowlevel.current_clock().current_time

    def begin_turn(self) -> None:
        """See `broker.net.connection_scheduler.LoopMeter`."""
        self._began_s = self._clock_s()

    def pumped(self, connection: DrivenConnection) -> None:
        """See `broker.net.connection_scheduler.LoopMeter`."""
        now_s, began_s, session = self._clock_s(), self._began_s, connection.session
        self._began_s = now_s
        if session is not None and session.held_time is not None and began_s is not None:
            held_s = now_s - began_s
            session.held_time.seconds += held_s + self._skipped * min(held_s, _WEIGHTED_S_MAX)

    def end_turn(self) -> None:
        """See `broker.net.connection_scheduler.LoopMeter`."""
        self._began_s = None
        self.turns_to_skip = self._skipped = 0 if self._has_charged else next(self._skips)
        self._has_charged = False

    def _measure_next_turn(self) -> None:
        """Clients are charged one request at a time: measure all turns until one charges no client."""
        self._skipped -= self.turns_to_skip
        self.turns_to_skip = 0
        self._has_charged = True

    def begin(self) -> float | None:
        """The server begins to work on a request. Returns what has to be passed to `end`.

        It is the time of another request that is not charged yet: completing a reply may be part of the work on a
        request of another client.
        """
        now_s = self._clock_s()
        outer_s = None if self._began_s is None else now_s - self._began_s
        self._began_s = now_s
        return outer_s

    def end(self, session: Session, outer_s: float | None) -> None:
        """The server has worked on a request of this session, which may be answered later."""
        held_s = self._held_s()
        self._began_s = None if outer_s is None else self._clock_s() - outer_s
        self._quotas.charge_time(session, session.client_id, held_s)

    def _held_s(self) -> float:
        """The time that is not charged yet, which is charged now."""
        if self._began_s is None:
            return 0.0
        now_s = self._clock_s()
        held_s, self._began_s = now_s - self._began_s, now_s
        return held_s

    def timed_call(self, session: Session, call: Callable[[], T]) -> T:
        """The result of `call`, whose time is charged to the client."""
        outer_s = self.begin()
        try:
            return call()
        finally:
            self.end(session, outer_s)

    @coroutine
    def timed_task(self, session: Session, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """As `timed_call`, for a coroutine: its time is what it takes between the points where it waits."""
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            try:
                waits_for = self.timed_call(session, step)
            except StopIteration as stopped:
                result: T = stopped.value
                return result
            try:
                step = partial(work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - passed on to the coroutine
                step = partial(work.throw, error)

    def charge(self, usage: Usage) -> int:
        """Record a request, and return the `throttle_time_ms` of its response."""
        throttle_time_ms = self._quotas.charge(usage, self._held_s())
        if self.is_timed:
            self._measure_next_turn()
            usage.session.held_time = self._quotas.held_time(usage.session, usage.client_id)
        if throttle_time_ms <= 0 or usage.is_exempt:
            return 0
        self.throttle(usage.session, throttle_time_ms)
        return throttle_time_ms

    def allowance(self, session: Session, client_id: str | None, api_key: int) -> Allowance | None:
        """See `Quotas.allowance`."""
        return self._quotas.allowance(session, client_id, api_key)

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        """See `Quotas.fetched_bytes_max`."""
        return self._quotas.fetched_bytes_max(session, client_id)


class MutationCharging(Throttling):
    """Charges clients for changes of metadata."""

    def __init__(self, quotas: MutationQuotas, deadlines: Deadlines) -> None:
        super().__init__(deadlines)
        self._quotas = quotas

    def charge(
        self, session: Session, client_id: str | None, api_key: int, api_version: int, count: int
    ) -> tuple[bool, int]:
        """See `MutationQuotas.charge`. Mutes the client if it is connected here; brokers mute theirs."""
        is_allowed, throttle_time_ms = self._quotas.charge(session, client_id, api_key, api_version, count)
        self.throttle(session, throttle_time_ms)
        return is_allowed, throttle_time_ms
