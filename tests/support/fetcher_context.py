"""The context of a follower's fetchers, whose leader is broker A on this machine."""

from collections.abc import Callable
from math import inf
from random import Random

from broker.net.connection_drivers import ConnectionDrivers
from broker.replication.disconnected_brokers import DisconnectedBrokers
from broker.replication.fetch_plan import FetchSettings
from broker.replication.fetcher_context import FetcherContext
from broker.replication.partition import Partition
from broker.replication.throttles import Throttle
from kraft.env import Env, RealDisk, Tracer
from metadata.image import BrokerImage
from metadata.records import BrokerEndpoint
from tests.support.logs import no_trace
from tests.support.partition_harness import LOCAL, A

REQUEST_TIMEOUT_MS = 5_000


def leader_at(port: int) -> BrokerImage:
    """The registration of a leader that listens on `port`."""
    end_points = {"PLAINTEXT": BrokerEndpoint("PLAINTEXT", "127.0.0.1", port, 0)}
    return BrokerImage(A, 7, b"", end_points, {}, None, False, False, ())


def fail(partition: Partition, error: OSError) -> None:
    raise AssertionError("the disk works") from error


def fetcher_context(
    leader: Callable[[], BrokerImage | None],
    log_failed: Callable[[Partition, OSError], None] = fail,
    drivers: ConnectionDrivers | None = None,
    trace: Tracer = no_trace,
    request_timeout_ms: float = REQUEST_TIMEOUT_MS,
) -> FetcherContext:
    """The context of a follower that finds the registration of its leader by `leader`.

    Without `drivers`, it reads its connections through Trio's streams.
    """
    return FetcherContext(
        drivers=drivers or ConnectionDrivers(lambda: True, lambda stream: None, -1),
        env=Env(RealDisk(), Random(1), lambda: 0.0, trace),
        settings=FetchSettings(LOCAL),
        client_id="follower",
        listener_name="PLAINTEXT",
        request_timeout_ms=request_timeout_ms,
        source=lambda broker_id: leader(),
        broker_epoch=lambda: 7,
        throttle=Throttle(1, 1_000, quota=lambda: inf, now_ms=lambda: 0),
        log_failed=log_failed,
        disconnected_brokers=DisconnectedBrokers(lambda broker_id: 7),
    )
