"""Creates the coordinators of a broker."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import trio

from broker.controller_client.channel import ControllerChannel
from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.group.share_groups import ShareGroups
from broker.coordinator.group.share_states import ShareStates
from broker.coordinator.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    internal_topic,
)
from broker.coordinator.latest_offsets import LatestOffsets
from broker.coordinator.runtime.runtime import CoordinatorRuntime, RuntimeSettings
from broker.coordinator.runtime.shard import CoordinatorShard, ShardContext
from broker.coordinator.share.coordinator import ShareCoordinator
from broker.coordinator.share.shard import ShareCoordinatorShard
from broker.coordinator.share.state_client import ShareStateClient
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.marker_sender import MarkerSender
from broker.coordinator.transaction.marker_writer import MarkerWriter
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.verification import TransactionVerifier
from broker.net.deadlines import Deadlines
from broker.node.node_context import NodeContext
from broker.replication.replica_manager import ReplicaManager
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import Compression
from kraft import lazy_attrs
from metadata.controller import GROUP_VERSION, SHARE_VERSION, TRANSACTION_VERSION

S = TypeVar("S", bound=CoordinatorShard)

# The value that leaves the linger time to the coordinator, and the time it then uses, which is Kafka 4.1's fixed one.
_ADAPTIVE: Final = -1
_LINGER_MS_MAX: Final = 5
_CREATE_TOPICS_VERSION: Final = 7
_CREATION_TIMEOUT_MS: Final = 2_000
# After this time without an answer, a connection to a share coordinator counts as lost: consumers wait meanwhile.
_SHARE_REQUEST_TIMEOUT_MS: Final = 10_000


@lazy_attrs.frozen
class Transactions:
    """The transaction coordinator, and what this broker does for those of other brokers."""

    coordinator: TransactionCoordinator
    markers: MarkerWriter
    verifier: TransactionVerifier
    _sender: MarkerSender
    _connections: BrokerConnections

    async def run(self) -> None:
        """Runs all but the runtime, until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in (self._connections.run, self._sender.run, self.verifier.run, self.coordinator.run):
                nursery.start_soon(run)


def transactions(
    shared: NodeContext,
    partitions: ReplicaManager,
    deadlines: Deadlines,
    groups: GroupCoordinator,
    allocate_producer_id: Callable[[], Awaitable[int]],
) -> Transactions:
    """Create the transaction coordinator. `allocate_producer_id` raises KafkaError.

    The caller runs it, and its `coordinator.runtime`.
    """
    loader, effective, node_id = shared.loader, shared.effective, shared.config.node_id
    runtime = _transaction_runtime(shared, partitions, deadlines)
    connections = broker_connections(shared, "txn", lambda: effective.config.request_timeout_ms)
    writer = MarkerWriter(
        partitions,
        groups.runtime,
        deadlines,
        now_ms=lambda: int(shared.env.wall() * 1000),
        timeout_ms=lambda: effective.config.request_timeout_ms,
    )
    sender = MarkerSender(
        node_id, lambda: loader.image, writer, connections, deadlines, partitions.commit_staged, shared.env.trace
    )
    coordinator = TransactionCoordinator(
        runtime, lambda: effective.config, sender, partial(_allocated, allocate_producer_id), shared.env.trace
    )
    verifier = _verifier(shared, partitions, coordinator, connections)
    return Transactions(coordinator, writer, verifier, sender, connections)


def broker_connections(shared: NodeContext, purpose: str, request_timeout_ms: Callable[[], float]) -> BrokerConnections:
    """Connections to other brokers for one purpose, which names their client id."""
    return BrokerConnections(
        f"broker-{shared.config.node_id}-{purpose}",
        shared.config.endpoints.inter_broker_listener_name,
        lambda broker_id: shared.loader.image.cluster.brokers.get(broker_id),
        request_timeout_ms,
        shared.security.to_brokers,
    )


async def _allocated(allocate_producer_id: Callable[[], Awaitable[int]]) -> int | None:
    """A new producer id; None if the controller cannot be reached."""
    try:
        return await allocate_producer_id()
    except KafkaError:
        return None


def _verifier(
    shared: NodeContext, partitions: ReplicaManager, coordinator: TransactionCoordinator, connections: BrokerConnections
) -> TransactionVerifier:
    loader, effective = shared.loader, shared.effective
    return TransactionVerifier(
        shared.config.node_id,
        TRANSACTION_STATE,
        lambda: loader.image,
        coordinator,
        connections,
        partitions.commit_staged,
        lambda: (
            effective.config.add_partitions_to_txn_retry_backoff_max_ms,
            effective.config.add_partitions_to_txn_retry_backoff_ms,
        ),
    )


def _transaction_runtime(
    shared: NodeContext, partitions: ReplicaManager, deadlines: Deadlines
) -> CoordinatorRuntime[TransactionShard]:
    config, loader = shared.config, shared.loader
    settings = RuntimeSettings(
        topic=TRANSACTION_STATE,
        partition_count=config.transaction_state_log_num_partitions,
        write_timeout_ms=config.request_timeout_ms,
        load_buffer_bytes=config.transaction_state_log_load_buffer_size,
        compression=Compression.NONE,
        append_linger_ms=0,
    )

    def make_shard(context: ShardContext) -> TransactionShard:
        return TransactionShard(context, config, lambda: loader.image.features.get(TRANSACTION_VERSION, 0))

    return _runtime(shared, partitions, deadlines, settings, make_shard)


def group_coordinator(shared: NodeContext, partitions: ReplicaManager, deadlines: Deadlines) -> GroupCoordinator:
    """Create the group coordinator. The caller runs `runtime.run`."""
    config, loader, effective = shared.config, shared.loader, shared.effective
    linger_ms = config.group_coordinator_append_linger_ms
    settings = RuntimeSettings(
        topic=CONSUMER_OFFSETS,
        partition_count=config.offsets_topic_num_partitions,
        write_timeout_ms=config.offsets_commit_timeout_ms,
        load_buffer_bytes=config.offsets_load_buffer_size,
        compression=Compression(config.offsets_topic_compression_codec),
        append_linger_ms=_LINGER_MS_MAX if linger_ms == _ADAPTIVE else linger_ms,
    )
    return GroupCoordinator(
        _runtime(
            shared,
            partitions,
            deadlines,
            settings,
            lambda context: GroupCoordinatorShard(context, GroupConfig.of(config)),
        ),
        lambda: effective.config,
        shared.env.rng,
        has_consumer_groups=lambda: loader.image.features.get(GROUP_VERSION, 0) > 0,
    )


@lazy_attrs.frozen
class Shares:
    """The share coordinator, this broker's way to all share coordinators, and its share groups."""

    coordinator: ShareCoordinator
    state: ShareStateClient
    groups: ShareGroups
    _connections: BrokerConnections

    async def run(self) -> None:
        """Runs all of it, until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in (self._connections.run, self.coordinator.run, self.state.run, self.groups.states.run):
                nursery.start_soon(run)


def shares(
    shared: NodeContext,
    partitions: ReplicaManager,
    deadlines: Deadlines,
    channel: ControllerChannel,
    groups: GroupCoordinator,
) -> Shares:
    """Create the share coordinator. The caller runs it, and its `coordinator.runtime`."""
    effective = shared.effective
    coordinator = ShareCoordinator(
        _share_runtime(shared, partitions, deadlines), lambda: effective.config, partitions, shared.env.trace
    )
    connections = broker_connections(
        shared, "share", lambda: min(effective.config.request_timeout_ms, _SHARE_REQUEST_TIMEOUT_MS)
    )
    state = ShareStateClient(
        shared.config.node_id,
        coordinator,
        lambda: shared.loader.image,
        connections,
        partial(_create_internal_topic, shared, channel, SHARE_GROUP_STATE),
        deadlines,
        partitions.commit_staged,
        shared.env.rng,
        shared.env.trace,
    )
    return Shares(coordinator, state, _share_groups(shared, partitions, groups, state, connections), connections)


def _share_groups(
    shared: NodeContext,
    partitions: ReplicaManager,
    groups: GroupCoordinator,
    state: ShareStateClient,
    connections: BrokerConnections,
) -> ShareGroups:
    loader, effective = shared.loader, shared.effective
    return ShareGroups(
        groups.runtime,
        ShareStates(groups.runtime, state, partitions.commit_staged, shared.env.trace),
        LatestOffsets(shared.config.node_id, partitions, connections, lambda: loader.image),
        lambda: effective.config,
        lambda: loader.image,
        is_served=lambda: loader.image.features.get(SHARE_VERSION, 0) > 0,
        commit=partitions.commit_staged,
    )


async def _create_internal_topic(shared: NodeContext, channel: ControllerChannel, name: str) -> ErrorCode:
    topic = internal_topic(name, shared.effective.config)
    assert topic is not None, "it is the topic of a coordinator"
    return await create_topic(channel, topic)


async def create_topic(channel: ControllerChannel, topic: CreatableTopic) -> ErrorCode:
    """Has the controller create a topic. Returns NONE if it is there, or the error."""
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_CREATION_TIMEOUT_MS)
    try:
        response = await channel.call(request, _CREATE_TOPICS_VERSION, timeout_ms=_CREATION_TIMEOUT_MS)
    except KafkaError as error:
        return error.code
    code = ErrorCode.of(response.topics[0].error_code)
    return ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code


def _share_runtime(
    shared: NodeContext, partitions: ReplicaManager, deadlines: Deadlines
) -> CoordinatorRuntime[ShareCoordinatorShard]:
    config = shared.config
    linger_ms = config.share_coordinator_append_linger_ms
    settings = RuntimeSettings(
        topic=SHARE_GROUP_STATE,
        partition_count=config.share_coordinator_state_topic_num_partitions,
        write_timeout_ms=config.share_coordinator_write_timeout_ms,
        load_buffer_bytes=config.share_coordinator_load_buffer_size,
        compression=Compression(config.share_coordinator_state_topic_compression_codec),
        append_linger_ms=_LINGER_MS_MAX if linger_ms == _ADAPTIVE else linger_ms,
        is_compacted=False,
    )
    return _runtime(shared, partitions, deadlines, settings, lambda context: ShareCoordinatorShard(context, config))


def _runtime(
    shared: NodeContext,
    partitions: ReplicaManager,
    deadlines: Deadlines,
    settings: RuntimeSettings,
    make_shard: Callable[[ShardContext], S],
) -> CoordinatorRuntime[S]:
    loader = shared.loader
    return CoordinatorRuntime(
        settings,
        make_shard,
        partitions=partitions,
        deadlines=deadlines,
        now_ms=lambda: int(shared.env.wall() * 1000),
        image=lambda: loader.image,
        trace=shared.env.trace,
    )
