"""The port to client quotas, and the throttling of clients that exceed one (KIP-219).

A request is always answered at once, with the time in `throttle_time_ms` for which its client exceeds a quota. The
client's connection is muted for that time: none of its requests are carried out, and nothing is read from it.
"""

from typing import Protocol

import attrs
import trio

from broker.net.deadlines import Deadlines
from broker.server.session import Session


@attrs.frozen
class Usage:
    """One request that was carried out. Sizes are in bytes, without the four of a frame's length.

    `fetched_bytes` are the records of a Fetch response. `is_exempt` says that the request is to be counted, and its
    client not to be throttled for it: a follower replicates under a quota of its own.
    """

    session: Session
    client_id: str | None
    api_key: int
    api_version: int
    request_bytes: int
    fetched_bytes: int = 0
    is_exempt: bool = False


class Quotas(Protocol):
    """Keeps account of what clients use. A server without quotas charges nothing, and measures nothing.

    When the quotas of clients change, `Dispatcher.access_changed` has to be called.
    """

    def charge(self, usage: Usage) -> int:
        """Record a request, and return for how many milliseconds its client has to pause; 0 within its quotas.

        A Fetch response for which this is not 0 is sent without its records, so these are not to be counted then.
        """
        ...

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        """How many bytes of records one Fetch may return without exceeding a quota in any case; inf without a quota.

        A larger response would be held back again and again, and its consumer would never get on.
        """
        ...


class Charging:
    """Charges requests to their clients, and mutes the connections of those that exceed a quota."""

    def __init__(self, quotas: Quotas, deadlines: Deadlines) -> None:
        self._quotas = quotas
        self._deadlines = deadlines

    def charge(self, usage: Usage) -> int:
        """Record a request, and return the `throttle_time_ms` of its response."""
        throttle_time_ms = self._quotas.charge(usage)
        if throttle_time_ms <= 0 or usage.is_exempt:
            return 0
        self.throttle(usage.session, throttle_time_ms)
        return throttle_time_ms

    def fetched_bytes_max(self, session: Session, client_id: str | None) -> float:
        """See `Quotas.fetched_bytes_max`."""
        return self._quotas.fetched_bytes_max(session, client_id)

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
