"""The composition root: one node, controller and broker in one, from its rooms.

    async with trio.open_nursery() as nursery:
        node = Node(env, config)
        await nursery.start(node.run)       # returns once it serves
        ...
        node.stop()                         # `run` then closes everything cleanly and returns

A room that fails ends the node: the exception leaves `run`, nothing is marked clean, and the next start recovers.
Cancelling `run` is the same as a crash, as far as the disk is concerned.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from broker.config import KafkaConfig
from broker.effective_config import EffectiveConfig
from broker.features import SUPPORTED_FEATURES
from broker.handlers import CONTROLLER_HANDLERS, HANDLERS, Dispatcher, Services
from broker.net.acceptor import Acceptor, ConnectionLimits
from broker.net.connection import Connection
from broker.net.deadlines import Deadlines
from broker.node.listeners import BoundListener, bind, close, reachable
from broker.node.voters import driver_config
from broker.producer_ids import ProducerIds
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.partitions import Partitions
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_dirs import LogDirs, LogDirsConfig
from broker.storage.meta_properties import read_meta_properties
from broker.unsupported import check_supported
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.driver import Quorum
from kraft.env import Env, kernel_socket
from metadata.controller import BrokerRegistration, Controller, ControllerConfig
from metadata.image import Loader
from metadata.records import BrokerEndpoint

METADATA_DIRECTORY: Final = "__cluster_metadata-0"


class Node:
    """See the module's docstring. `bound` and `cluster_id` are known once it serves.

    Raises ConfigError for what it cannot run yet.
    """

    def __init__(self, env: Env, config: KafkaConfig) -> None:
        check_supported(config)
        self._env = env
        self._config = config
        self._stop = trio.Event()
        self.bound: Sequence[BoundListener] = ()
        self.cluster_id = ""

    def stop(self) -> None:
        """Have `run` close everything cleanly and return."""
        self._stop.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`. Raises what its rooms raise: see LogDirs.open, Quorum.open; OSError of binding."""
        self.bound = await bind(self._config)
        try:
            self.cluster_id = _read_cluster_id(self._env, self._config) or encode_uuid(
                new_uuid(self._env.rng.randbytes)
            )
            log_dirs = await LogDirs.open(self._env, _log_dirs_config(self._config), cluster_id=self.cluster_id)
            try:
                broker_epoch = await self._run_rooms(log_dirs, task_status)
            except BaseException:
                log_dirs.release()
                raise
        finally:
            await close(self.bound)
        await log_dirs.close_cleanly(broker_epoch=broker_epoch)
        self._env.trace("node-stopped", node=self._config.node_id)

    async def _run_rooms(self, log_dirs: LogDirs, task_status: trio.TaskStatus[None]) -> int:
        """Everything that runs; the broker epoch under which it ran."""
        env, config = self._env, self._config
        metadata_log = await Quorum.open(
            env,
            f"{config.metadata_log_dir}/{METADATA_DIRECTORY}",
            driver_config(config, self.bound, self.cluster_id, _directory_id(log_dirs)),
        )
        effective = EffectiveConfig(config, env.trace)
        loader = Loader()
        controller = Controller(
            ControllerConfig(
                cluster_id=self.cluster_id,
                num_partitions=config.num_partitions,
                default_replication_factor=config.default_replication_factor,
                delete_topic_enable=config.delete_topic_enable,
            ),
            metadata_log,
            loader,
            config.schema(),
            env.rng,
        )
        metadata_log.register(loader)
        metadata_log.register(controller)
        partitions = Partitions(config.node_id, log_dirs, effective, env.trace, lambda: int(env.wall() * 1000))
        loader.add_publisher(partitions.publish)
        deadlines = Deadlines()

        async with trio.open_nursery() as nursery:
            await nursery.start(metadata_log.run)
            effective.update(loader.image)
            await log_dirs.load(lambda topic: effective.topic(loader.image.configs.topic(topic)).log)
            broker_epoch = await controller.register_broker(self._registration(log_dirs))
            partitions.start(loader.image)
            await controller.unfence_broker(config.node_id, broker_epoch)
            services = Services(
                env=env,
                cluster_id=self.cluster_id,
                loader=loader,
                effective=effective,
                controller=controller,
                partitions=partitions,
                log_dirs=log_dirs,
                fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, env.rng),
                producer_ids=ProducerIds(lambda: controller.allocate_producer_ids(config.node_id, broker_epoch)),
                deadlines=deadlines,
            )
            nursery.start_soon(deadlines.run)
            nursery.start_soon(partitions.flushes.run)
            nursery.start_soon(Housekeeping(env, log_dirs, partitions.high_watermark).run)
            self._accept(nursery, services)
            env.trace("node-started", node=config.node_id, listeners=[str(bound) for bound in self.bound])
            task_status.started()
            await self._stop.wait()
            nursery.cancel_scope.cancel()
        return broker_epoch

    def _accept(self, nursery: trio.Nursery, services: Services) -> None:
        config = self._config
        acceptor = Acceptor(
            services.partitions.end_turn,
            _connection_limits(config),
            kernel_socket,
            self._on_connection_closed,
        )
        nursery.start_soon(acceptor.run)
        brokers = Dispatcher(services, HANDLERS, nursery)
        controllers = Dispatcher(services, CONTROLLER_HANDLERS, nursery)
        for bound in self.bound:
            is_controller = bound.listener.name in config.endpoints.controller_listener_names
            nursery.start_soon(
                acceptor.serve, bound.listener.name, bound.sockets, controllers if is_controller else brokers
            )

    def _registration(self, log_dirs: LogDirs) -> BrokerRegistration:
        config = self._config
        return BrokerRegistration(
            cluster_id=self.cluster_id,
            broker_id=config.node_id,
            incarnation_id=new_uuid(self._env.rng.randbytes),
            end_points=[
                BrokerEndpoint(listener.name, *reachable(listener, self.bound), listener.security_protocol)
                for listener in config.endpoints.advertised_broker_listeners
            ],
            features=SUPPORTED_FEATURES,
            log_dirs=log_dirs.directory_ids,
            rack=config.rack,
            previous_broker_epoch=log_dirs.previous_broker_epoch,
        )

    def _on_connection_closed(self, connection: Connection) -> None:
        if connection.close_reason is not None:
            self._env.trace(
                "connection-closed",
                peer=connection.peer_host,
                listener=connection.listener,
                reason=connection.close_reason,
            )


def _read_cluster_id(env: Env, config: KafkaConfig) -> str | None:
    """The cluster that the directories were formatted for; None for a new node."""
    for directory in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        if env.disk.exists(directory):
            properties = read_meta_properties(env.disk, directory)
            if properties is not None:
                return properties.cluster_id
    return None


def _directory_id(log_dirs: LogDirs) -> str:
    """The id of the directory with the metadata log, as text."""
    properties = log_dirs.directories[log_dirs.config.metadata_directory or ""].properties
    assert properties is not None, "it was formatted when it was opened"
    assert properties.directory_id is not None, "a directory gets its id when it is opened"
    return encode_uuid(properties.directory_id)


def _log_dirs_config(config: KafkaConfig) -> LogDirsConfig:
    return LogDirsConfig(
        directories=config.log_dirs,
        node_id=config.node_id,
        metadata_directory=config.metadata_log_dir,
        initial_task_delay_ms=config.log_initial_task_delay_ms,
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        flush_scheduler_interval_ms=config.log_flush_scheduler_interval_ms,
        recovery_point_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        log_start_offset_checkpoint_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
        high_watermark_checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
        producer_expiration_ms=config.producer_id_expiration_ms,
        producer_expiration_check_interval_ms=config.producer_id_expiration_check_interval_ms,
    )


def _connection_limits(config: KafkaConfig) -> ConnectionLimits:
    limits = ConnectionLimits(
        request_size_max=config.socket_request_max_bytes,
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        idle_ms_max=config.connections_max_idle_ms,
    )
    if "socket.send.buffer.bytes" in config.layers.static:
        return attrs.evolve(limits, send_buffer_bytes=config.socket_send_buffer_bytes)
    return limits
