"""Creates the share-partitions of a broker."""

from functools import partial
from typing import Final

import trio

from broker.client import ConnectionLost
from broker.controller_client.channel import ControllerChannel
from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.share.share_state import ShareStateStore
from broker.net.deadlines import Deadlines
from broker.node.coordinators import broker_connections, create_topic
from broker.node.node_context import NodeContext
from broker.replication.replica_manager import ReplicaManager
from broker.share_partitions.dead_letter_queue import PRODUCE_TIMEOUT_MS, DeadLetterWriter
from broker.share_partitions.dead_letter_topics import DeadLetterTopics
from broker.share_partitions.manager import SharePartitionManager
from broker.share_partitions.settings import SettingsCache
from broker.wire.api.produce import ProduceRequest, ProduceResponse
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from metadata.controller import DEAD_LETTERS_SINCE, SHARE_VERSION
from metadata.image import MetadataDelta, MetadataImage

# The first version with topics by id: dead letters for a deleted topic are not written to a new one of its name.
_PRODUCE_VERSION: Final = 13
# The leader answers before.
_REQUEST_TIMEOUT_MS: Final = PRODUCE_TIMEOUT_MS + 5_000


@lazy_attrs.frozen
class LedSharePartitions:
    """The share-partitions of the partitions that this broker leads, and their way to dead-letter topics."""

    manager: SharePartitionManager
    _connections: BrokerConnections

    async def run(self) -> None:
        """Runs all of it, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._connections.run)
            nursery.start_soon(self.manager.dead_letters.run)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called with each new image of the metadata."""
        manager = self.manager
        if not image.features.get(SHARE_VERSION, 0):
            manager.close_all(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "share.version is at level 0."))
        if delta.configs.changed and manager.dead_letters.counts:
            manager.dead_letters.forget_unused_counts()


def share_partitions(
    shared: NodeContext,
    partitions: ReplicaManager,
    store: ShareStateStore,
    deadlines: Deadlines,
    channel: ControllerChannel,
) -> LedSharePartitions:
    """Create the manager, and register it for changes of leadership."""
    loader, effective, env = shared.loader, shared.effective, shared.env
    settings = SettingsCache(
        lambda: effective.config,
        lambda group_id: loader.image.configs.group(group_id),
        lambda: loader.image.features.get(SHARE_VERSION, 0) >= DEAD_LETTERS_SINCE,
    )
    connections = broker_connections(shared, "dlq", lambda: _REQUEST_TIMEOUT_MS)
    writer = _dead_letter_writer(shared, settings, connections, channel)
    manager = SharePartitionManager(
        partitions,
        store,
        deadlines,
        settings.of_group,
        now_ms=lambda: trio.current_time() * 1000,
        wall_ms=lambda: int(env.wall() * 1000),
        trace=env.trace,
        dead_letters=writer,
    )
    return LedSharePartitions(manager, connections)


def _dead_letter_writer(
    shared: NodeContext, settings: SettingsCache, connections: BrokerConnections, channel: ControllerChannel
) -> DeadLetterWriter:
    loader, env = shared.loader, shared.env
    return DeadLetterWriter(
        DeadLetterTopics(lambda: loader.image, shared.effective, partial(create_topic, channel)),
        settings.of_group,
        partial(_produce, connections),
        wall_ms=lambda: int(env.wall() * 1000),
        rng=env.rng,
        trace=env.trace,
    )


async def _produce(connections: BrokerConnections, broker_id: int, request: ProduceRequest) -> ProduceResponse | None:
    """Has a broker, which may be this one, append records. None if it could not be reached, or has not answered."""
    try:
        response: ProduceResponse = await connections.call(broker_id, request, _PRODUCE_VERSION)
    except ConnectionLost:
        return None
    return response
