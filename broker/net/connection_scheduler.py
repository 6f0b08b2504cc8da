"""A turn: run the requests that have arrived, commit what they staged, send the replies."""

from collections.abc import Callable
from typing import Protocol

from broker.net.driven_connection import DrivenConnection
from broker.net.turn_timer import TurnTimer


class LoopMeter(Protocol):
    """Measures for how long each connection holds the event loop in a turn.

    `turns_to_skip` turns are not measured before the next one that is.
    """

    turns_to_skip: int

    def begin_turn(self) -> None:
        """A turn begins that is measured."""
        ...

    def pumped(self, connection: DrivenConnection) -> None:
        """The requests of a connection were served, and those of the next one are from now on."""
        ...

    def end_turn(self) -> None:
        """All requests of the turn were served."""
        ...


class ConnectionScheduler:
    """Runs connections together, in the one order that is safe: pump all, commit once, then send to all.

    An acknowledgement may be in a connection's outgoing list before its record is written; `commit`
    writes everything staged in this turn with one gathered write per partition, and only then anything is sent. Where
    the commit fails, the turn's connections of clients are closed instead: the clients retry, and nothing was
    acknowledged.

    Sending to all at the end also saves the peer wake-ups: it finds several replies at a time.

    Completing another connection's reply during a turn (an append that feeds a parked Fetch) queues that connection
    for the next; turns never nest, so the depth of the stack does not depend on who waits for whom.

    `timer` measures the requests of some turns, and `meter` the connections; None measures nothing.
    """

    def __init__(self, commit: Callable[[], bool], timer: TurnTimer | None = None) -> None:
        self._commit = commit
        self.timer = timer
        self.meter: LoopMeter | None = None
        self._queue: list[DrivenConnection] = []
        self._running = False

    def add(self, connection: DrivenConnection) -> None:
        """Have the connection take part in the next turn."""
        if not connection.queued:
            connection.queued = True
            self._queue.append(connection)

    def run(self, connection: DrivenConnection) -> None:
        """Run the connection in a turn now, or after the current one."""
        self.add(connection)
        self.run_all()

    def run_all(self) -> None:
        """Run turns until no connection is queued."""
        if self._running:
            return
        self._running = True
        timer = self.timer
        try:
            while self._queue:
                connections, self._queue = self._queue, []
                if timer is None:
                    self._turn(connections)
                elif timer.turns_to_skip:
                    timer.turns_to_skip -= 1
                    self._turn(connections)
                    if timer.completed:
                        timer.replies_sent()
                else:
                    timer.begin()
                    self._turn(connections, timer)
                    timer.end()
        finally:
            self._running = False

    def _turn(self, connections: list[DrivenConnection], timer: TurnTimer | None = None) -> None:
        unfinished = []
        timed = None if timer is None else timer.timed
        meter = None if self.meter is None else _begun(self.meter)
        for connection in connections:
            connection.queued = False
            if connection.pump(timed):
                unfinished.append(connection)
            if meter is not None:
                meter.pumped(connection)
        if meter is not None:
            meter.end_turn()
        if timer is not None:
            timer.pumped()
        committed = self._commit()
        if timer is not None:
            timer.committed()
        if not committed:
            for connection in connections:
                connection.commit_failed()
            unfinished = [each for each in unfinished if not each.closed]
        for connection in connections:
            if (connection.outgoing or connection.muted) and not connection.transport.flush():
                continue  # the transport runs it again after it has sent the rest
            if connection in unfinished:
                self.add(connection)


def _begun(meter: LoopMeter) -> LoopMeter | None:
    """The meter, if this turn is measured."""
    if meter.turns_to_skip:
        meter.turns_to_skip -= 1
        return None
    meter.begin_turn()
    return meter
