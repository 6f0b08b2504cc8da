"""Connections of clients beyond the limits of their listener: brokers and administrators are served even then.

Brokers have to reach each other and an administrator has to be able to correct the limits, whatever the limits say. A
node cannot tell them from clients before it has read requests. It therefore goes on to accept connections beyond the
limits, at a bounded pace, and keeps a bounded number of them in reserve. There,

- a request that only brokers send takes its connection out of the reserve: it is served whatever the limits are,
- a request of a producer or a consumer waits until the limits allow the connection,
- any other request is served, among them all that change configs and quotas.

A new connection always gets in: if the reserve is full, the one that was silent for longest is closed, those of clients
that wait first and those that have been served an administrator's request last.
"""

from math import inf
from typing import Final

import trio

from broker.net.admission import Admission
from broker.net.connection import Connection, Sender, Service
from broker.net.deadlines import Deadlines
from broker.net.reply import Reply

# Connections in reserve. Each takes a descriptor and some 10 KB.
RESERVE_MAX: Final = 128
# The pause between two connections that get into the reserve. At 50 per second, a node spends less than a twentieth of
# its time on clients that it does not serve.
PACE_S: Final = 0.02
# API keys that any client asks at first: ApiVersions, Metadata, SaslHandshake, SaslAuthenticate.
_INTRODUCTIONS: Final = frozenset({18, 3, 17, 36})


class Reserve:
    """The connections in reserve; the one that was silent for longest comes first."""

    def __init__(self, admission: Admission, deadlines: Deadlines) -> None:
        self.admission = admission
        self._deadlines = deadlines
        self._places: dict[Connection, _Place] = {}
        self._next_s = 0.0
        self._due_s = inf

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._places

    @property
    def has_turn(self) -> bool:
        """Whether another connection may get in now."""
        return trio.current_time() >= self._next_s

    async def wait_for_turn(self) -> None:
        """Wait until another connection may get in."""
        while not self.has_turn:
            await trio.sleep_until(self._next_s)
        self._next_s = trio.current_time() + PACE_S

    def add(self, connection: Connection) -> None:
        """Take a connection in."""
        if len(self._places) >= RESERVE_MAX:
            victim = min(self._places.values(), key=lambda place: place.rank)
            victim.connection.close("its listener has as many connections as its limits allow, and others came later")
        self._places[connection] = _Place(self, connection)

    def remove(self, connection: Connection) -> bool:
        """Forget a connection that was closed; False if it was not in reserve."""
        return self._places.pop(connection, None) is not None

    def served(self, connection: Connection) -> None:
        """Note that a connection was not silent."""
        self._places[connection] = self._places.pop(connection)

    def let_in_soon(self, pause_s: float = 0) -> None:
        """Let the connections in that the limits allow by then. Called after the connections that count have changed,
        and after the limits have.
        """
        when = trio.current_time() + pause_s
        if self._places and when < self._due_s:
            self._due_s = when
            self._deadlines.add(when, self._let_in)

    def _let_in(self) -> None:
        self._due_s = inf
        for place in list(self._places.values()):
            if place.waits and place.admit():
                place.connection.end_throttle()


class _Place:
    """The service of one connection in reserve, in front of the service that the connection asked for.

    `waits` is true once a request has to wait for a place, `_administers` once one was served that producers and
    consumers do not send.
    """

    def __init__(self, reserve: Reserve, connection: Connection) -> None:
        self.connection = connection
        self.waits = False
        self._reserve = reserve
        self._service: Service = connection.service
        self._administers = False
        connection.service = self

    @property
    def rank(self) -> int:
        """The order in which connections are closed for others."""
        return 0 if self.waits else 2 if self._administers else 1

    def open_session(self, connection: Connection) -> object:
        """See `broker.net.connection.Service`."""
        return self._service.open_session(connection)

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        """See `broker.net.connection.Service`."""
        return self._service.sender_of(connection, start, end)

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """See `broker.net.connection.Service`."""
        self._service.check_size(connection, api_key, size)

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        """See `broker.net.connection.Service`."""
        if connection.service is not self:  # an earlier request of this turn has taken it out of the reserve
            return self._service.serve(connection, start, end)
        sender = self._service.sender_of(connection, start, end)
        if sender is Sender.BROKER:
            self._reserve.admission.count_unlimited(connection.listener, connection.peer_host)
            self._leave()
        elif sender is Sender.CLIENT:
            if not self.admit():
                self.waits = True
                connection.hold(start)
                return None
        else:
            self._reserve.served(connection)
            api_key = int.from_bytes(connection.buffer.data[start : start + 2])
            self._administers = self._administers or api_key not in _INTRODUCTIONS
        return self._service.serve(connection, start, end)

    def admit(self) -> bool:
        """Take the connection out of the reserve if the limits allow it."""
        excess = self._reserve.admission.admit(self.connection.listener, self.connection.peer_host)
        if excess is None:
            self._leave()
            return True
        if excess.rate is not None:
            self._reserve.let_in_soon(excess.rate.pause_ms / 1000)
        return False

    def _leave(self) -> None:
        self._reserve.remove(self.connection)
        self.connection.service = self._service
