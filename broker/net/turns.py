"""One turn of a connection: run its requests, commit what they staged, send the replies."""

from collections import deque
from collections.abc import Callable

from broker.net.connection import Connection


class Turns:
    """Runs connections one at a time, in the one order that is safe: pump, commit, then send.

    An acknowledgement may be in a connection's outgoing list before the record it speaks of is written; `commit`
    writes everything staged in this turn with one gathered write per partition, and only then anything is sent. Where
    the commit fails, the connection is closed instead: its client retries, and nothing was acknowledged.

    Completing another connection's reply during a turn (an append that feeds a parked Fetch) queues that connection;
    turns never nest, so the depth of the stack does not depend on who waits for whom.
    """

    def __init__(self, commit: Callable[[], bool]) -> None:
        self._commit = commit
        self._queue: deque[Connection] = deque()
        self._running = False

    def run(self, connection: Connection) -> None:
        """Give the connection a turn: now, or after the one that is under way."""
        if not connection.queued:
            connection.queued = True
            self._queue.append(connection)
        if self._running:
            return
        self._running = True
        try:
            while self._queue:
                self._turn(self._queue.popleft())
        finally:
            self._running = False

    def _turn(self, connection: Connection) -> None:
        connection.queued = False
        more = True
        while more and not connection.closed:
            more = connection.pump()
            if not self._commit():
                connection.close("a write failed; nothing of this turn was acknowledged")
                return
            if (connection.outgoing or connection.muted) and not connection.transport.flush():
                return  # the transport runs it again when the rest has gone
