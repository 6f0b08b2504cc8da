"""A broker's heartbeats come over one connection at a time; the latest one represents its process."""

from pathlib import Path

from broker.net.connection import Connection, Sender, Service
from broker.net.driven_connection import ClosedTransport
from broker.net.heartbeat_connections import HeartbeatConnections
from broker.net.reply import Reply
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from tests.support.running_cluster import running_cluster
from tests.support.wire_client import connected

ROLES = {1: "broker", 2: "controller"}
# Timeouts so long that only connections can tell the controller which broker is gone.
LONG_SESSIONS = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "30000"}


class Served(Service):
    """Connections of brokers, and the brokers whose heartbeats came over the closed ones."""

    def __init__(self) -> None:
        self.heartbeats = HeartbeatConnections()
        self.lost: list[tuple[int, int]] = []

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        """Anyone may send any request."""
        return Sender.ANYONE

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """Accept every size."""

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        raise AssertionError("nothing is sent")

    def connect(self) -> Connection:
        connection = Connection(
            self, lambda each: None, self._closed, request_size_max=1, peer_host="::1", listener="CONTROLLER"
        )
        connection.transport = ClosedTransport()
        return connection

    def _closed(self, connection: Connection) -> None:
        self.lost += self.heartbeats.closed(connection)


def test_the_end_of_a_connection_tells_whose_heartbeats_came_over_it() -> None:
    served = Served()
    first, second = served.connect(), served.connect()
    served.heartbeats.record_heartbeat(1, 10, first)
    served.heartbeats.record_heartbeat(1, 10, first)
    served.heartbeats.record_heartbeat(2, 11, second)
    served.connect().close(None)
    assert served.lost == []
    first.close(None)
    assert served.lost == [(1, 10)]


def test_a_broker_that_registered_again_was_heard_in_both_of_its_lives() -> None:
    served = Served()
    connection = served.connect()
    served.heartbeats.record_heartbeat(1, 10, connection)
    served.heartbeats.record_heartbeat(1, 12, connection)
    connection.close(None)
    assert served.lost == [(1, 10), (1, 12)]


def test_the_end_of_an_older_connection_means_nothing_and_comes_with_the_next_ones_first_heartbeat() -> None:
    served = Served()
    older, newer = served.connect(), served.connect()
    served.heartbeats.record_heartbeat(1, 10, older)
    served.heartbeats.record_heartbeat(1, 10, newer)
    assert older.closed
    assert served.lost == []
    served.heartbeats.record_heartbeat(1, 10, older)  # in flight when its connection was closed
    assert not newer.closed
    newer.close(None)
    assert served.lost == [(1, 10)]


async def test_a_broker_that_lost_its_connection_is_heard_again_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES, overrides=LONG_SESSIONS) as cluster:
        broker = cluster.nodes[1].traced
        async with connected(cluster.nodes[2].controller_port) as client:
            epoch = broker.of("broker_state_changed")[-1]["epoch"]
            await client.call(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch), 1)  # in the broker's name
            await cluster.until(lambda: bool(broker.of("controller_connection_lost")))
            await client.expect_close()
