"""The connection over which each broker sends its heartbeats; when it closes, the broker may have stopped."""

from broker.net.connection import Connection


class HeartbeatConnections:
    """Keeps one connection per broker incarnation: the one of its latest heartbeat.

    A broker that opens another connection has given up the former one, and has retried or dropped its requests there.
    The former connection is closed, so that these requests are not served late.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[int, int], Connection] = {}

    def record_heartbeat(self, broker_id: int, broker_epoch: int, connection: Connection) -> None:
        """Record a heartbeat. Closes the former connection if the heartbeat came over another one."""
        if connection.closed:
            return  # it was replaced by a later one, or the peer has closed it
        broker = broker_id, broker_epoch
        before = self._latest.get(broker)
        if before is not connection:
            self._latest[broker] = connection
            if before is not None:
                before.close("its broker has connected again")

    def closed(self, connection: Connection) -> list[tuple[int, int]]:
        """Forget the connection. Returns the brokers, with their epochs, whose latest heartbeat came over it."""
        brokers = [broker for broker, latest in self._latest.items() if latest is connection]
        for broker in brokers:
            del self._latest[broker]
        return brokers
