"""Creates the share-partitions of a broker."""

import trio

from broker.coordinator.share.share_state import ShareStateStore
from broker.net.deadlines import Deadlines
from broker.node.node_context import NodeContext
from broker.replication.replica_manager import ReplicaManager
from broker.share_partitions.manager import SharePartitionManager
from broker.share_partitions.settings import SettingsCache
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import SHARE_VERSION
from metadata.image import MetadataDelta, MetadataImage


def share_partitions(
    shared: NodeContext, partitions: ReplicaManager, store: ShareStateStore, deadlines: Deadlines
) -> SharePartitionManager:
    """Create the manager, and register it for changes of leadership and of the feature level."""
    loader, effective, env = shared.loader, shared.effective, shared.env

    settings = SettingsCache(lambda: effective.config, lambda group_id: loader.image.configs.group(group_id))
    manager = SharePartitionManager(
        partitions,
        store,
        deadlines,
        settings.of_group,
        now_ms=lambda: trio.current_time() * 1000,
        wall_ms=lambda: int(env.wall() * 1000),
        trace=env.trace,
    )

    def publish(delta: MetadataDelta, image: MetadataImage) -> None:
        if not image.features.get(SHARE_VERSION, 0):
            manager.close_all(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "share.version is at level 0."))

    loader.add_publisher(publish)
    return manager
