"""One node: a controller, a broker, or both.

    async with trio.open_nursery() as nursery:
        node = Node(env, config)
        await nursery.start(node.run)       # returns once the node serves
        ...
        node.stop()                         # `run` then closes everything cleanly and returns

If any part of the node fails, the node ends: `run` raises the exception, no log is marked as cleanly closed, and the
next start recovers the logs. Cancelling `run` leaves the disk as a crash does.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from broker.config import KafkaConfig
from broker.config.checks import check_supported
from broker.config.effective import EffectiveConfig
from broker.config.endpoints import HTTP
from broker.controller_client.channel import ControllerChannel
from broker.log_levels import LogLevels
from broker.net.acceptor import Acceptor
from broker.net.authentication_counts import AuthenticationCounts
from broker.net.connection import Connection
from broker.net.turn_timer import TurnTimer
from broker.node.broker_role import BrokerRole
from broker.node.connection_limits import connection_limits, limit_rates
from broker.node.controller_role import ControllerRole
from broker.node.identity import cluster_id_of
from broker.node.listeners import BoundListener, bind, close
from broker.node.metadata_directory import METADATA_DIRECTORY, MetadataDirectoryRefused, check_voters
from broker.node.node_context import Dispatchers, NodeContext
from broker.node.request_logging import RequestLogging
from broker.node.sasl_listeners import SaslListeners
from broker.node.scrubbing import make_scrubber
from broker.node.transport_security import TransportSecurity
from broker.quota import ConnectionRates, QuotaWindows, UnusableQuotas
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_selector import find_replica_selector
from broker.server.authorizer import Authorizer
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from broker.wire.uuids import encode_uuid
from kraft.env import Env, kernel_socket
from kraft.raft_node import RaftNode
from kraft.recovery import begin_log
from metadata.configuration.settings import settings_from
from metadata.image import MetadataLoader
from metadata.snapshot_generator import SnapshotGenerator

if TYPE_CHECKING:
    from broker.node.node_metrics import NodeMetrics


from broker.node.listeners import reachable
from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.raft_node import RaftNodeConfig

# The leader waits for news before it answers a Fetch, for the fetch timeout divided by this. A lost response then does
# not exceed the timeout.
_FETCH_WAITS_PER_TIMEOUT = 4


class Node:
    """See the module's docstring. `bound` and `cluster_id` are set while `is_serving` is true.

    `loader`, and `broker` if the node is a broker, are set once the node has joined the quorum. Tests and the
    simulation read them. `log_levels` are those of the log that prints what `env` traces, if clients may change them.
    `dispatchers` make the objects that serve requests.

    Raises InvalidConfig for a configuration that this node does not support.
    """

    def __init__(
        self,
        env: Env,
        config: KafkaConfig,
        log_levels: LogLevels | None = None,
        dispatchers: Dispatchers | None = None,
    ) -> None:
        check_supported(config)
        find_replica_selector(config)
        self._authentications = AuthenticationCounts()
        self._security = TransportSecurity(config, env, self._authentications)
        self._sasl = SaslListeners(env, config, self._authentications)
        self._authorizer = self._find_authorizer(config)
        self._env = env
        self._config = config
        self._log_levels = log_levels or LogLevels()
        self._dispatchers = dispatchers or Dispatchers()
        self._stop = trio.Event()
        self._controller: ControllerRole | None = None
        self.bound: Sequence[BoundListener] = ()
        self.loader: MetadataLoader | None = None
        self.broker: BrokerRole | None = None
        self.cluster_id = ""
        self.is_serving = False

    @property
    def _metadata_log(self) -> str:
        return f"{self._config.metadata_directory}/{METADATA_DIRECTORY}"

    def stop(self) -> None:
        """Make `run` close everything cleanly and return."""
        self._stop.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`. Reports to `task_status` once the node serves, or was stopped before.

        Raises OSError if a port cannot be bound, and the errors of `cluster_id_of`, LogManager.open, opening the
        quorum's log, and BrokerRole.start.
        """
        self.bound = await bind(self._config)
        try:
            self.cluster_id = cluster_id_of(self._env, self._config)
            log_manager = await LogManager.open(
                self._env,
                settings_from(
                    LogManagerConfig,
                    self._config,
                    directories=self._config.log_directories,
                    node_id=self._config.node_id,
                    metadata_directory=self._config.metadata_directory,
                ),
                cluster_id=self.cluster_id,
                found_metadata=partial(begin_log, self._env.disk, self._metadata_log)
                if self._config.is_controller
                else None,
            )
            try:
                broker = await self._run_parts(log_manager, task_status)
            except MetadataDirectoryRefused:
                await log_manager.close_unloaded()  # no log has been opened yet
                raise
            except BaseException:
                log_manager.release()
                raise
        finally:
            await close(self.bound)
        await (log_manager.close_unloaded() if broker is None else broker.close_logs())
        self._env.trace("node_stopped", node=self._config.node_id)

    async def _run_parts(self, log_manager: LogManager, task_status: trio.TaskStatus[None]) -> BrokerRole | None:
        """Run the quorum and the roles. Returns the broker, whose logs are still open; None if the node has none."""
        env, config = self._env, self._config
        directory_id = _directory_id(log_manager, config.metadata_directory)
        driver = _raft_node_config(config, self.bound, self.cluster_id, directory_id)
        quorum = await RaftNode.open(env, self._metadata_log, driver, self._security.connect_quorum)
        check_voters(config, driver.quorum.me, quorum.core.voters)
        effective = EffectiveConfig(config, env.trace)
        loader = self.loader = MetadataLoader()
        partitions = ReplicaManager(config.node_id, log_manager, effective, env.trace, lambda: int(env.wall() * 1000))
        loader.add_publisher(effective.publish)
        loader.add_publisher(UnusableQuotas(env.trace).publish)
        loader.add_publisher(partitions.publish)
        quorum.register(loader)
        shared = self._make_context(quorum, loader, partitions, effective)
        async with trio.open_nursery() as nursery:
            if (metrics := shared.metrics) is not None:
                metrics.add_node(self.cluster_id, quorum, shared.acceptor, log_manager)
                nursery.start_soon(metrics.run, self._http_sockets())
            channel, snapshots = await self._join_quorum(shared, nursery)
            scrubber = make_scrubber(shared, log_manager, partitions, snapshots)
            async with trio.open_nursery() as broker_nursery:
                if config.is_broker:
                    self.broker = BrokerRole(shared, log_manager, partitions, channel, scrubber, broker_nursery)
                else:
                    broker_nursery.start_soon(scrubber.run)
                await self._serve(nursery, quorum, self.broker, task_status)
                broker_nursery.cancel_scope.cancel()
            await quorum.leave()
            nursery.cancel_scope.cancel()
        return self.broker

    def _make_context(
        self, quorum: RaftNode, loader: MetadataLoader, partitions: ReplicaManager, effective: EffectiveConfig
    ) -> NodeContext:
        metrics = self._make_metrics()
        timer = None if metrics is None else metrics.timer
        acceptor = self._acceptor(partitions, effective, loader, timer)
        request_logging = RequestLogging(self._env.trace, acceptor, timer, self._config)
        effective.add_listener(request_logging.configure)
        effective.add_listener(self._security.reconfigure, self._security.check)
        self._publish_acls(loader)
        loader.add_publisher(self._sasl.publish)
        effective.add_listener(self._sasl.configure, self._sasl.check)
        return NodeContext(
            env=self._env,
            config=self._config,
            cluster_id=self.cluster_id,
            bound=self.bound,
            quorum=quorum,
            loader=loader,
            effective=effective,
            acceptor=acceptor,
            log_levels=self._log_levels,
            request_logging=request_logging,
            security=self._security,
            authorizer=self._authorizer,
            sasl=self._sasl,
            dispatchers=self._dispatchers,
            metrics=metrics,
        )

    def _find_authorizer(self, config: KafkaConfig) -> Authorizer | None:
        """The authorizer, if the config names one. Other nodes do not import the package: they start faster."""
        if not config.authorizer_class_name:
            return None
        from broker.security.acls import find_authorizer

        return find_authorizer(config)

    def _publish_acls(self, loader: MetadataLoader) -> None:
        if self._authorizer is None:
            return
        from broker.security.acls import StandardAuthorizer

        if isinstance(self._authorizer, StandardAuthorizer):
            loader.add_publisher(self._authorizer.publish)

    def _make_metrics(self) -> "NodeMetrics | None":
        """The metrics, if there is an HTTP listener. Other nodes do not import the package: they start faster."""
        if self._config.endpoints.http is None:
            return None
        from broker.node.node_metrics import NodeMetrics

        return NodeMetrics(self._env, self._config, self._not_ready, self._security)

    def _http_sockets(self) -> list[trio.SocketListener]:
        return [each for bound in self.bound if bound.listener.name == HTTP for each in bound.sockets]

    def _not_ready(self) -> list[str]:
        """The reasons for which this node does not serve its clients; none if it does."""
        reasons = [] if self.is_serving else ["the node starts or stops"]
        image = None if self.loader is None else self.loader.image
        broker = None if image is None else image.cluster.brokers.get(self._config.node_id)
        if self._config.is_broker and (broker is None or broker.fenced):
            reasons.append("the broker is fenced or not registered")
        return reasons

    def _acceptor(
        self, partitions: ReplicaManager, effective: EffectiveConfig, loader: MetadataLoader, timer: TurnTimer | None
    ) -> Acceptor:
        config = self._config
        windows = QuotaWindows(config.quota_window_num, config.quota_window_size_seconds)
        rates = ConnectionRates(windows, lambda: trio.current_time() * 1000, config.dynamic_configs_ignored)
        acceptor = Acceptor(
            partitions.end_turn,
            connection_limits(config),
            kernel_socket,
            self._on_connection_closed,
            self._on_connection_refused,
            rates,
            timer,
            self._on_connection_not_secured,
        )

        def reconfigure(changed: KafkaConfig) -> None:
            acceptor.limit(connection_limits(changed))
            limit_rates(rates, changed)

        limit_rates(rates, config)
        effective.add_listener(reconfigure)
        loader.add_publisher(rates.publish)
        return acceptor

    async def _join_quorum(
        self, shared: NodeContext, nursery: trio.Nursery
    ) -> tuple[ControllerChannel, SnapshotGenerator]:
        """Register all listeners of the quorum, in the order in which they must be notified, and start them.

        The quorum itself does not run yet.
        """
        config, quorum = self._config, shared.quorum
        controller = None
        if config.is_controller:
            controller = self._controller = ControllerRole(shared, nursery)
        snapshots = self._snapshot_generator(shared)
        channel = ControllerChannel(
            self._env,
            quorum,
            None if controller is None else controller.dispatcher,
            client_id=f"broker-{config.node_id}",
            # Heartbeats use the channel: a dead connection must be noticed while there is time to send another one.
            request_timeout_ms=config.broker_session_timeout_ms / 2,
            security=self._security.to_controllers,
        )
        quorum.register(snapshots)
        quorum.register(channel)
        nursery.start_soon(shared.acceptor.run)
        nursery.start_soon(shared.security.run)
        nursery.start_soon(shared.sasl.run)
        registrar = None if controller is None else controller.registrar(channel)
        if controller is not None:
            await controller.start()
        await nursery.start(snapshots.run)
        await nursery.start(channel.run)
        if registrar is not None:
            nursery.start_soon(registrar.run)
        return channel, snapshots

    def _snapshot_generator(self, shared: NodeContext) -> SnapshotGenerator:
        max_bytes = self._config.metadata_log_max_record_bytes_between_snapshots
        return SnapshotGenerator(
            shared.quorum, shared.loader, max_bytes, self._config.metadata_log_max_snapshot_interval_ms
        )

    async def _serve(
        self, nursery: trio.Nursery, quorum: RaftNode, broker: BrokerRole | None, task_status: trio.TaskStatus[None]
    ) -> None:
        """Start the quorum and the broker, and serve until `stop`, which may be called before all has started."""
        with trio.CancelScope() as until_stopped:
            nursery.start_soon(self._cancel_when_stopped, until_stopped)
            await nursery.start(quorum.run)
            if broker is not None:
                await broker.start()
            self._env.trace("node_started", node=self._config.node_id, listeners=[str(bound) for bound in self.bound])
            self.is_serving = True
            task_status.started()
            await trio.sleep_forever()
        if not self.is_serving:
            task_status.started()
        self.is_serving = False
        if broker is not None:
            await broker.stop()

    async def _cancel_when_stopped(self, scope: trio.CancelScope) -> None:
        await self._stop.wait()
        scope.cancel()

    def _on_connection_closed(self, connection: Connection) -> None:
        if self._controller is not None:
            self._controller.connection_closed(connection)
        if self.broker is not None:
            self.broker.connection_closed(connection)
        if connection.close_reason is not None:
            self._env.trace(
                "connection_closed",
                peer=connection.peer_host,
                listener=connection.listener,
                reason=connection.close_reason,
            )

    def _on_connection_refused(self, listener: str, peer: str, reason: str) -> None:
        self._env.trace("connection_refused", peer=peer, listener=listener, reason=reason)

    def _on_connection_not_secured(self, listener: str, peer: str, reason: str) -> None:
        self._env.trace("connection_not_secured", peer=peer, listener=listener, reason=reason)


def _directory_id(log_manager: LogManager, path: str) -> str:
    """The id of a log directory as text."""
    properties = log_manager.directories[path].properties
    assert properties is not None, "it was formatted when it was opened"
    assert properties.directory_id is not None, "a directory gets its id when it is opened"
    return encode_uuid(properties.directory_id)


def _raft_node_config(
    config: KafkaConfig, bound: Sequence[BoundListener], cluster_id: str, directory_id: str
) -> RaftNodeConfig:
    """The settings of the quorum. `directory_id` is the id of the metadata log's directory, as text."""
    me = ReplicaKey(config.node_id, directory_id)
    my_address = ""
    if config.is_controller:
        host, port = reachable(config.endpoints.advertised_controller_listeners[0], bound)
        my_address = f"{host}:{port}"
    voters = VoterSet(
        tuple(Voter(ReplicaKey(node_id), f"{host}:{port}") for node_id, (host, port) in config.quorum_voters.items())
    )
    bootstrap = tuple(f"{host}:{port}" for host, port in config.quorum_bootstrap_servers)
    if config.is_sole_voter:
        voters, bootstrap = VoterSet((Voter(me, my_address),)), ()
    return RaftNodeConfig(
        QuorumConfig(
            me=me,
            my_address=my_address,
            bootstrap_servers=bootstrap,
            election_timeout_ms=config.controller_quorum_election_timeout_ms,
            fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
            election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
            retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
            fetch_max_wait_ms=config.controller_quorum_fetch_timeout_ms // _FETCH_WAITS_PER_TIMEOUT,
            auto_join=config.controller_quorum_auto_join_enable,
        ),
        cluster_id,
        voters,
        config.controller_quorum_request_timeout_ms,
    )
