"""The metrics of a node, and the HTTP listener that serves them. Imported only by nodes that have such a listener."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from traceback import format_exception
from typing import Final

import trio

from broker.config import KafkaConfig
from broker.coordinator.broker_connections import BrokerConnections
from broker.metrics import Histogram, MetricsRegistry
from broker.metrics.collectors import (
    ConnectionCollector,
    ControllerCollector,
    Elections,
    GroupCollector,
    LogDirectoryCollector,
    PartitionCollector,
    ProcessCollector,
    QuorumCollector,
    QuotaCollector,
    RequestCollector,
    ScrubCollector,
    ShareCollector,
    SharePartitionCollector,
    TelemetryCollector,
    TransactionCollector,
)
from broker.metrics.collectors.end_offsets import EndOffsets
from broker.metrics.http import HttpServer
from broker.net.acceptor import Acceptor
from broker.net.turn_timer import TurnTimer
from broker.node.transport_security import TransportSecurity
from broker.quota import BrokerQuotas
from broker.server import Services
from broker.storage.log_manager import LogManager
from broker.storage.scrub.statistics import ScrubStatistics
from kraft.env import Env
from kraft.raft_node import RaftNode
from metadata.image import MetadataLoader

_FSYNC_BOUNDS_MS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500)


class NodeMetrics:
    """`registry` has the collectors of all parts of the node; each part adds its own once it exists.

    `timer` measures the requests of the node's listeners. `not_ready` returns the reasons for which the node is not
    ready to serve its clients.
    """

    def __init__(
        self, env: Env, config: KafkaConfig, not_ready: Callable[[], Sequence[str]], security: TransportSecurity
    ) -> None:
        self._env = env
        self._security = security
        self._config = config
        self._not_ready = not_ready
        self._cluster_id = ""
        self._requests = RequestCollector()
        self._fsync_times = Histogram(_FSYNC_BOUNDS_MS)
        env.sync_times.record = lambda seconds: self._fsync_times.record(seconds * 1000)
        self._process = ProcessCollector(self._info, lambda: not not_ready())
        self._connections: BrokerConnections | None = None
        self.timer = TurnTimer(self._requests.record)
        self.registry = MetricsRegistry()
        self.registry.add(self._process)
        self.registry.add(self._requests)

    def add_node(self, cluster_id: str, quorum: RaftNode, acceptor: Acceptor, log_manager: LogManager) -> None:
        """Include the parts that every node has."""
        self._cluster_id = cluster_id
        self.registry.add(QuorumCollector(quorum))
        self.registry.add(ConnectionCollector(acceptor, self._security.authentications))
        self.registry.add(LogDirectoryCollector(log_manager, self._env.disk, self._fsync_times))

    def add_scrubber(self, statistics: ScrubStatistics) -> None:
        """Include the scrubber."""
        self.registry.add(ScrubCollector(statistics))

    def add_controller(
        self, loader: MetadataLoader, is_active: Callable[[], bool], request_counts: Mapping[int, int]
    ) -> None:
        """Include a controller, and the requests to its listeners."""
        elections = Elections()
        loader.add_publisher(elections.publish)
        self.registry.add(ControllerCollector(lambda: loader.image, is_active, elections))
        self._requests.add_counts(request_counts)

    def add_broker(self, services: Services, quotas: BrokerQuotas, request_counts: Mapping[int, int]) -> None:
        """Include a broker that has loaded its logs, and the requests to its listeners."""
        loader, config = services.loader, self._config
        self._connections = BrokerConnections(
            f"broker-{config.node_id}-metrics",
            config.endpoints.inter_broker_listener_name,
            lambda broker_id: loader.image.cluster.brokers.get(broker_id),
            lambda: config.request_timeout_ms,
            self._security.to_brokers,
        )
        groups = services.groups.runtime
        ends = EndOffsets(groups, services.partitions, self._connections, lambda: loader.image)
        self.registry.add(PartitionCollector(services.partitions, services.throttles))
        self.registry.add(QuotaCollector(quotas))
        self.registry.add(GroupCollector(groups, ends.end_offset), ends.prepare)
        self.registry.add(TransactionCollector(services.transactions.runtime))
        self.registry.add(ShareCollector(services.shares.coordinator, services.shares.groups))
        self.registry.add(SharePartitionCollector(services.shares.partitions))
        assert services.telemetry is not None, "a node with metrics has it"
        self.registry.add(TelemetryCollector(services.telemetry))
        self._requests.add_counts(request_counts)

    async def run_connections(self) -> None:
        """Carry the connections to other brokers, which are asked for the ends of partitions, until cancelled."""
        assert self._connections is not None, "the node is a broker"
        await self._connections.run()

    async def run(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve HTTP on these sockets until cancelled."""
        server = HttpServer(self.registry.page, self._reasons, self._failed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._process.run)
            nursery.start_soon(self.timer.run)
            nursery.start_soon(partial(server.run, listeners))

    async def _reasons(self) -> Sequence[str]:
        return self._not_ready()

    def _failed(self, error: Exception) -> None:
        self._env.trace("scrape_failed", error="".join(format_exception(error)))

    def _info(self) -> tuple[str, ...]:
        try:
            release = version("kraft")
        except PackageNotFoundError:  # the source, without an installation
            release = "unknown"
        return release, str(self._config.node_id), self._cluster_id, ",".join(self._config.process_roles)
