"""A node's part as a broker: it follows the metadata log, keeps itself registered, and serves clients."""

from functools import partial
from math import inf

import trio

from broker.config import KafkaConfig
from broker.controller_client.channel import ControllerChannel
from broker.controller_client.image_waits import ImageWaits
from broker.controller_client.lifecycle import BrokerLifecycle
from broker.controller_client.producer_ids import ProducerIds
from broker.handlers import HANDLERS
from broker.net.deadlines import Deadlines
from broker.node.coordinators import group_coordinator
from broker.node.listeners import reachable
from broker.node.settings import (
    cleaner_config,
    fetch_settings,
    lifecycle_config,
    replica_selector,
    replication_throttles,
)
from broker.node.shared import Shared
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.fetcher import FetcherSurroundings
from broker.replication.fetchers import Fetchers
from broker.replication.lost_brokers import LostBrokers
from broker.replication.partitions import Partitions
from broker.replication.replica_directories import has_replica
from broker.server import Dispatcher, Services
from broker.storage.cleaner import Cleaner
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_dirs import LogDirs
from broker.wire.uuids import new_uuid
from metadata.controller import SUPPORTED_FEATURES, BrokerRegistration
from metadata.image import MetadataImage
from metadata.records import BrokerEndpoint


class BrokerRole:
    """Its tasks run in `nursery`. `partitions` follows the metadata from the start of the log on.

    `fetchers` fetch what others lead; they are there once the logs are loaded.
    """

    def __init__(
        self,
        shared: Shared,
        log_dirs: LogDirs,
        partitions: Partitions,
        channel: ControllerChannel,
        nursery: trio.Nursery,
    ) -> None:
        self._shared = shared
        self._log_dirs = log_dirs
        self.partitions = partitions
        self._channel = channel
        self._nursery = nursery
        self._deadlines = Deadlines()
        self._groups = group_coordinator(shared, partitions, self._deadlines)
        self._image_waits = ImageWaits(shared.loader)
        shared.loader.add_publisher(self._image_waits.publish)
        self._housekeeping = Housekeeping(shared.env, log_dirs, partitions.high_watermark)
        self._cleaner = Cleaner(shared.env, log_dirs, partitions.high_watermark, cleaner_config(shared.config))
        self._lost_brokers = LostBrokers(self._epoch_of)
        self.fetchers: Fetchers | None = None
        self._throttles = replication_throttles(shared.effective, lambda: trio.current_time() * 1000)
        shared.effective.when_changed(self._reconfigure)
        self._load_began = False
        self._is_loaded = False
        self._lifecycle = self._make_lifecycle()

    def _make_lifecycle(self) -> BrokerLifecycle:
        shared, log_dirs = self._shared, self._log_dirs
        return BrokerLifecycle(
            shared.env,
            lifecycle_config(shared.config),
            self._registration(),
            self._channel,
            shared.loader,
            lambda: log_dirs.directory_ids,
        )

    async def start(self) -> None:
        """Join the cluster and serve. Raises RegistrationFailed, and what `LogDirs.load` raises.

        First it has to catch up with the metadata: only that says which logs are whose, and how they are configured.
        """
        shared, nursery = self._shared, self._nursery
        nursery.start_soon(self._lifecycle.run)
        await self._lifecycle.wait_caught_up()
        self._load_began = True
        effective, loader = shared.effective, shared.loader
        await self._log_dirs.load(
            lambda topic: effective.topic(loader.image.configs.topic(topic)).log,
            partial(has_replica, loader.image, shared.config.node_id),
        )
        self._is_loaded = True
        self.fetchers = fetchers = Fetchers(self._fetcher_surroundings(), self._log_dirs.settle)
        self.partitions.when_followed(fetchers.followed)
        self.partitions.when_log_dir_failed(self._lifecycle.log_dir_failed)
        self.partitions.start(loader.image)
        nursery.start_soon(self.partitions.backlog.run)
        nursery.start_soon(fetchers.run)
        services = self._services()
        for run in (services.producer_ids.run, services.deadlines.run, services.groups.runtime.run):
            nursery.start_soon(run)
        for run in (self.partitions.flushes.run, self._housekeeping.run, self._cleaner.run):
            nursery.start_soon(run)
        for telling in (self.partitions.isr_changes, self.partitions.directories):
            nursery.start_soon(telling.run, self._channel, lambda: self._lifecycle.broker_epoch)
        await self._lifecycle.unfence()
        await self._image_waits.until(self._is_told_of, inf)
        self._serve(services)

    def _serve(self, services: Services) -> None:
        """Accept connections on the brokers' listeners."""
        shared, nursery = self._shared, self._nursery
        dispatcher = Dispatcher(services, HANDLERS, nursery, self._forward)
        endpoints = shared.config.endpoints
        for bound in shared.bound_for(endpoints.broker_listeners):
            name = bound.listener.name
            is_for_peers = len(endpoints.broker_listeners) > 1 and name == endpoints.inter_broker_listener_name
            serve = partial(shared.acceptor.serve, name, bound.sockets, dispatcher, is_for_peers=is_for_peers)
            nursery.start_soon(serve)

    async def stop(self) -> None:
        """Hand over what this broker leads, and close its clients' connections; the tasks are the nursery's to end."""
        await self._lifecycle.shut_down()
        for listener in self._shared.config.endpoints.broker_listeners:
            self._shared.acceptor.close_all(listener.name, None)

    async def close_logs(self) -> None:
        """Leave the log directories as cleanly as they can be, once all tasks have ended."""
        if self._is_loaded:
            await self._housekeeping.checkpoint_high_watermarks()
            await self._log_dirs.close_cleanly(broker_epoch=self._lifecycle.broker_epoch)
        elif self._load_began:
            self._log_dirs.release()  # some logs were recovered and others not: the next start has to do it all
        else:
            await self._log_dirs.close_unloaded(broker_epoch=self._lifecycle.broker_epoch)

    def _reconfigure(self, config: KafkaConfig) -> None:
        self._housekeeping.producer_expiration_ms = config.producer_id_expiration_ms
        self._cleaner.configure(cleaner_config(config))

    def _is_told_of(self, image: MetadataImage) -> bool:
        """Whether this broker, as it knows the metadata, is one that clients are told of."""
        broker = image.cluster.brokers.get(self._shared.config.node_id)
        return broker is not None and broker.broker_epoch == self._lifecycle.broker_epoch and not broker.fenced

    def _epoch_of(self, broker_id: int) -> int | None:
        broker = self._shared.loader.image.cluster.brokers.get(broker_id)
        return None if broker is None else broker.broker_epoch

    async def _forward(self, payload: bytes, *, principal: str, client_host: str) -> bytes:
        timeout_ms = self._shared.effective.config.request_timeout_ms
        return await self._channel.forward(payload, principal=principal, client_host=client_host, timeout_ms=timeout_ms)

    def _fetcher_surroundings(self) -> FetcherSurroundings:
        shared = self._shared
        return FetcherSurroundings(
            env=shared.env,
            settings=fetch_settings(shared.config),
            client_id=f"broker-{shared.config.node_id}-fetcher",
            listener_name=shared.config.endpoints.inter_broker_listener_name,
            request_timeout_ms=shared.config.replica_socket_timeout_ms,
            source=lambda broker_id: shared.loader.image.cluster.brokers.get(broker_id),
            broker_epoch=lambda: self._lifecycle.broker_epoch,
            throttle=self._throttles.follower,
            log_failed=self.partitions.log_failed,
            lost_brokers=self._lost_brokers,
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
            log_dirs=self._log_dirs,
            lost_brokers=self._lost_brokers,
            fetch_sessions=FetchSessions(shared.config.max_incremental_fetch_session_cache_slots, shared.env.rng),
            replica_selector=replica_selector(shared.config),
            throttles=self._throttles,
            producer_ids=ProducerIds(self._channel, self._lifecycle, shared.config.node_id),
            groups=self._groups,
            deadlines=self._deadlines,
        )

    def _registration(self) -> BrokerRegistration:
        """What this process is registered as, for all of its life."""
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
            features=SUPPORTED_FEATURES,
            log_dirs=self._log_dirs.directory_ids,
            rack=config.rack,
            previous_broker_epoch=self._log_dirs.previous_broker_epoch,
        )
