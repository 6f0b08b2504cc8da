"""Over which connection each broker sends its heartbeats: when that one ends, its process may be gone."""

from broker.net.connection import Connection


class HeartbeatConnections:
    """A broker has one connection. It gave up the one before when it made the next, whatever may have become of that.

    Requests that still arrive on an older one were sent again since, or given up: they must not be carried out late.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[int, int], Connection] = {}

    def heard(self, broker_id: int, broker_epoch: int, connection: Connection) -> None:
        """A heartbeat came. Closes the connection over which they came before, if that was another."""
        if connection.closed:
            return  # it was superseded itself, or is gone already
        broker = broker_id, broker_epoch
        before = self._latest.get(broker)
        if before is not connection:
            self._latest[broker] = connection
            if before is not None:
                before.close("its broker has connected again")

    def closed(self, connection: Connection) -> list[tuple[int, int]]:
        """The brokers, each with its epoch, that were heard over this connection last."""
        brokers = [broker for broker, latest in self._latest.items() if latest is connection]
        for broker in brokers:
            del self._latest[broker]
        return brokers
