"""The broker role of a node: follows the metadata log, keeps the broker registered, and serves clients."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from broker.config import KafkaConfig
from broker.controller_client.channel import ControllerChannel
from broker.controller_client.image_waits import ImageWaits
from broker.controller_client.lifecycle import BrokerLifecycle, LifecycleConfig
from broker.controller_client.producer_ids import ProducerIds
from broker.handlers import HANDLERS, TELEMETRY_HANDLERS
from broker.net.connection import Connection
from broker.net.deadlines import Deadlines
from broker.node.coordination import Coordination
from broker.node.listeners import reachable
from broker.node.node_context import NodeContext
from broker.quota import BrokerQuotas, QuotaWindows
from broker.replication.disconnected_brokers import DisconnectedBrokers
from broker.replication.fetch_plan import FetchSettings
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.fetcher_context import FetcherContext
from broker.replication.replica_directories import has_replica
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_selector import find_replica_selector
from broker.replication.throttles import ReplicationThrottles
from broker.server import Dispatcher, Services
from broker.server.lost_brokers import LostBrokers
from broker.server.quotas import Charging
from broker.server.scheduler import Scheduler
from broker.storage.cleaner import Cleaner, CleanerConfig
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_manager import LogManager
from broker.storage.scrub import Scrubber
from broker.wire.uuids import new_uuid
from metadata.configuration.settings import settings_from
from metadata.controller import REGISTERED_FEATURES, BrokerRegistration
from metadata.image import MetadataImage
from metadata.records import BrokerEndpoint

if TYPE_CHECKING:
    from broker.telemetry import ClientTelemetry

# How often client instances that were silent for too long are looked for.
_TELEMETRY_SWEEP_S: Final = 10.0


class BrokerRole:
    """The tasks of the role run in `nursery`. `partitions` follows the metadata from the start of the log.

    `fetchers` replicate the partitions that other brokers lead. They are set once the logs are loaded. `telemetry` has
    the metrics that clients push; None if the node has no HTTP listener, on which they could be seen.
    """

    def __init__(
        self,
        shared: NodeContext,
        log_manager: LogManager,
        partitions: ReplicaManager,
        channel: ControllerChannel,
        scrubber: Scrubber,
        nursery: trio.Nursery,
    ) -> None:
        self._shared, self._log_manager = shared, log_manager
        self.partitions = partitions
        self._channel, self._nursery, self.scrubber = channel, nursery, scrubber
        self._deadlines = Deadlines()
        self.coordination = Coordination(
            shared, partitions, self._deadlines, channel, lambda: self._producer_ids.allocate()
        )
        self._lost_brokers, self._image_waits = self._make_lost_brokers(), self._make_image_waits()
        self._housekeeping = Housekeeping(shared.env, log_manager, partitions.high_watermark)
        cleaner_config = settings_from(CleanerConfig, shared.config)
        self._cleaner = Cleaner(shared.env, log_manager, partitions.high_watermark, cleaner_config)
        self._disconnected_brokers = DisconnectedBrokers(self._epoch_of)
        self.fetchers: ReplicaFetcherManager | None = None
        self.dispatcher: Dispatcher[Services] | None = None
        self._quotas, self.telemetry = self._make_quotas(), self._make_telemetry()
        self._throttles = ReplicationThrottles.of(shared.effective, _now_ms)
        shared.effective.add_listener(self._reconfigure)
        self._load_began = self._is_loaded = False
        self._lifecycle = self._make_lifecycle()
        self._producer_ids = ProducerIds(channel, self._lifecycle, shared.config.node_id)

    def _make_lost_brokers(self) -> LostBrokers:
        lost_brokers = LostBrokers()
        self._shared.loader.add_publisher(lost_brokers.publish)
        return lost_brokers

    def _make_image_waits(self) -> ImageWaits:
        waits = ImageWaits(self._shared.loader)
        self._shared.loader.add_publisher(waits.publish)
        return waits

    def _make_lifecycle(self) -> BrokerLifecycle:
        shared, log_manager = self._shared, self._log_manager
        _cordon(log_manager, shared.config)
        return BrokerLifecycle(
            shared.env,
            settings_from(LifecycleConfig, shared.config),
            self._registration(),
            self._channel,
            shared.loader,
            lambda: log_manager.directory_ids,
            lambda: _cordoned_ids(log_manager),
        )

    def _make_quotas(self) -> BrokerQuotas:
        config, trace = self._shared.config, self._shared.env.trace
        windows = QuotaWindows(config.quota_window_num, config.quota_window_size_seconds)
        quotas = BrokerQuotas(
            windows, _now_ms, self._install_quotas, self._call_later, trace, config.dynamic_configs_ignored
        )
        self._shared.loader.add_publisher(quotas.publish)
        return quotas

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._deadlines.add(trio.current_time() + seconds, callback)

    def _make_telemetry(self) -> "ClientTelemetry | None":
        if self._shared.metrics is None:
            return None
        from broker.telemetry import ClientTelemetry, TelemetryLimits  # for start-up time

        env = self._shared.env
        limits = TelemetryLimits(self._shared.config.telemetry_max_bytes)
        telemetry = ClientTelemetry(limits, _now_ms, env.rng.randbytes, env.trace)
        self._shared.loader.add_publisher(telemetry.publish)
        return telemetry

    async def start(self) -> None:
        """Join the cluster and serve. Raises RegistrationFailed, and the errors of `LogManager.load`.

        The broker catches up with the metadata first, because the metadata says which replicas it has and how their
        logs are configured.
        """
        shared, nursery = self._shared, self._nursery
        nursery.start_soon(self._lifecycle.run)
        await self._lifecycle.wait_caught_up()
        self._load_began = True
        effective, loader = shared.effective, shared.loader
        await self._log_manager.load(
            lambda topic: effective.topic(topic, loader.image.configs.topic(topic)).log,
            partial(has_replica, loader.image, shared.config.node_id),
        )
        self._is_loaded = True
        self._start_replication()
        self.partitions.when_log_dir_failed(self._lifecycle.log_dir_failed)
        await nursery.start(self.coordination.run)
        self.partitions.start(loader.image)
        services = self._services()
        for run in (services.producer_ids.run, services.deadlines.run):
            nursery.start_soon(run)
        for run in (self.partitions.flusher.run, self._housekeeping.run, self._cleaner.run, self.scrubber.run):
            nursery.start_soon(run)
        for reporter in (self.partitions.isr_changes, self.partitions.directories):
            nursery.start_soon(reporter.run, self._channel, lambda: self._lifecycle.broker_epoch)
        await self._lifecycle.unfence()
        await self._image_waits.until(self._is_visible_to_clients, inf)
        self._serve(services)

    def _start_replication(self) -> None:
        context, damaged = self._fetcher_context(), self.partitions.damaged
        self.fetchers = fetchers = ReplicaFetcherManager(context, self._log_manager.settle)
        self.partitions.when_followed(fetchers.followed)
        self.partitions.when_followed(damaged.reconsider)
        self.partitions.when_led(damaged.reconsider)
        for run in (self.partitions.file_queue.run, fetchers.run):
            self._nursery.start_soon(run)
        config = self._shared.config
        threads = config.num_replica_alter_log_dirs_threads or len(self._log_manager.config.directories)
        self._nursery.start_soon(self.partitions.moves.run, self._shared.env, self._throttles.log_dirs, threads)
        self._nursery.start_soon(damaged.run, context)

    def _serve(self, services: Services) -> None:
        """Accept connections on the brokers' listeners."""
        shared, nursery = self._shared, self._nursery
        self.dispatcher = dispatcher = shared.dispatchers.broker(
            services,
            [each for each in HANDLERS if shared.metrics is not None or each not in TELEMETRY_HANDLERS],
            nursery,
            self._forward,
            commit=services.partitions.commit_staged,
            serves_unstable=shared.config.unstable_api_versions_enable,
        )
        dispatcher.authorize(shared.authorizer)
        self._install_quotas()
        shared.request_logging.add(dispatcher)
        if shared.metrics is not None:
            shared.metrics.add_broker(services, self._quotas, dispatcher.request_counts)
            nursery.start_soon(shared.metrics.run_connections)
        if self.telemetry is not None:
            nursery.start_soon(self._expire_telemetry, self.telemetry, dispatcher.scheduler)
        endpoints = shared.config.endpoints
        for bound in shared.bound_for(endpoints.broker_listeners):
            name = bound.listener.name
            is_for_peers = len(endpoints.broker_listeners) > 1 and name == endpoints.inter_broker_listener_name
            security = shared.security.of_listener(name)
            serve = partial(shared.acceptor.serve, is_for_peers=is_for_peers, security=security)
            nursery.start_soon(serve, name, bound.sockets, dispatcher)

    def _install_quotas(self) -> None:
        """Charge clients for their requests from now on; while there are no quotas, requests pay nothing for them."""
        dispatcher = self.dispatcher
        if dispatcher is not None:
            charging = Charging(self._quotas, self._deadlines) if self._quotas.any_set else None
            dispatcher.charge(charging)
            is_timed = charging is not None and charging.is_timed
            self._shared.acceptor.meter_connections(charging if is_timed else None)

    async def stop(self) -> None:
        """Hand over the partitions that this broker leads, and close the connections of clients.

        The tasks end with the nursery.
        """
        await self._lifecycle.shut_down()
        for listener in self._shared.config.endpoints.broker_listeners:
            self._shared.acceptor.close_all(listener.name, None)

    async def close_logs(self) -> None:
        """Close the log directories as cleanly as possible, after all tasks have ended."""
        if self._is_loaded:
            await self._housekeeping.checkpoint_high_watermarks()
            await self._log_manager.close_cleanly(broker_epoch=self._lifecycle.broker_epoch)
        elif self._load_began:
            self._log_manager.release()  # only some logs are recovered: the next start must recover all
        else:
            await self._log_manager.close_unloaded(broker_epoch=self._lifecycle.broker_epoch)

    def connection_closed(self, connection: Connection) -> None:
        """Forget the telemetry state of a client that is gone, and end its share sessions."""
        if self.telemetry is not None:
            self.telemetry.connection_closed(connection)
        self.coordination.connection_closed(connection)

    async def _expire_telemetry(self, telemetry: "ClientTelemetry", scheduler: Scheduler) -> None:
        while True:
            await trio.sleep(_TELEMETRY_SWEEP_S)
            await scheduler.finish(telemetry.remove_expired())

    def _reconfigure(self, config: KafkaConfig) -> None:
        self._housekeeping.producer_expiration_ms = config.producer_id_expiration_ms
        self._cleaner.configure(settings_from(CleanerConfig, config))
        if _cordon(self._log_manager, config):
            self._lifecycle.log_dirs_cordoned()

    def _is_visible_to_clients(self, image: MetadataImage) -> bool:
        """True if Metadata responses contain this broker: it is registered with its epoch and not fenced."""
        broker = image.cluster.brokers.get(self._shared.config.node_id)
        return broker is not None and broker.broker_epoch == self._lifecycle.broker_epoch and not broker.fenced

    def _epoch_of(self, broker_id: int) -> int | None:
        broker = self._shared.loader.image.cluster.brokers.get(broker_id)
        return None if broker is None else broker.broker_epoch

    async def _forward(self, payload: bytes, *, principal: str, client_host: str) -> bytes:
        timeout_ms = self._shared.effective.config.request_timeout_ms
        return await self._channel.forward(payload, principal=principal, client_host=client_host, timeout_ms=timeout_ms)

    def _fetcher_context(self) -> FetcherContext:
        shared = self._shared
        return FetcherContext(
            env=shared.env,
            drivers=shared.acceptor.drivers,
            settings=settings_from(FetchSettings, shared.config, replica_id=shared.config.node_id),
            client_id=f"broker-{shared.config.node_id}-fetcher",
            listener_name=shared.config.endpoints.inter_broker_listener_name,
            request_timeout_ms=shared.config.replica_socket_timeout_ms,
            source=lambda broker_id: shared.loader.image.cluster.brokers.get(broker_id),
            broker_epoch=lambda: self._lifecycle.broker_epoch,
            throttle=self._throttles.follower,
            log_failed=self.partitions.log_failed,
            disconnected_brokers=self._disconnected_brokers,
            security=shared.security.to_brokers,
        )

    def _services(self) -> Services:
        shared = self._shared
        return Services(
            env=shared.env,
            cluster_id=shared.cluster_id,
            loader=shared.loader,
            image_waits=self._image_waits,
            effective=shared.effective,
            quorum=shared.quorum,
            controllers=self._channel,
            partitions=self.partitions,
            log_manager=self._log_manager,
            scrub_statistics=self.scrubber.statistics,
            disconnected_brokers=self._disconnected_brokers,
            lost_brokers=self._lost_brokers,
            fetch_sessions=FetchSessions(shared.config.max_incremental_fetch_session_cache_slots, shared.env.rng),
            replica_selector=find_replica_selector(shared.config),
            throttles=self._throttles,
            producer_ids=self._producer_ids,
            coordination=self.coordination,
            deadlines=self._deadlines,
            telemetry=self.telemetry,
            log_levels=shared.log_levels,
            sasl=shared.sasl,
        )

    def _registration(self) -> BrokerRegistration:
        """The registration of this process, which does not change."""
        shared = self._shared
        config = shared.config
        return BrokerRegistration(
            cluster_id=shared.cluster_id,
            broker_id=config.node_id,
            incarnation_id=new_uuid(shared.env.rng.randbytes),
            end_points=[
                BrokerEndpoint(listener.name, *reachable(listener, shared.bound), listener.security_protocol)
                for listener in config.endpoints.advertised_broker_listeners
            ],
            features=REGISTERED_FEATURES,
            log_dirs=self._log_manager.directory_ids,
            rack=config.broker_rack,
            previous_broker_epoch=self._log_manager.previous_broker_epoch,
        )


def _cordon(log_manager: LogManager, config: KafkaConfig) -> bool:
    """Cordon the log directories that the config names (KIP-1066). Returns False if they are so already."""
    names, before = config.cordoned_log_dirs, _cordoned_ids(log_manager)
    for path, directory in log_manager.directories.items():
        directory.is_cordoned = "*" in names or path in names
    return _cordoned_ids(log_manager) != before


def _cordoned_ids(log_manager: LogManager) -> list[bytes]:
    directories = log_manager.partition_directories()
    return [each.directory_id for each in directories if each.is_cordoned and each.directory_id]


def _now_ms() -> float:
    return trio.current_time() * 1000
