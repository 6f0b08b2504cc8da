"""Creates the coordinators of a broker."""

from typing import Final

from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.internal_topics import CONSUMER_OFFSETS, group_partition_count
from broker.coordinator.runtime.runtime import CoordinatorRuntime, RuntimeSettings
from broker.net.deadlines import Deadlines
from broker.node.node_context import NodeContext
from broker.replication.replica_manager import ReplicaManager
from broker.wire.records import Compression
from metadata.controller import GROUP_VERSION

# The value that leaves the linger time to the coordinator, and the time it then uses, which is Kafka 4.1's fixed one.
_ADAPTIVE: Final = -1
_LINGER_MS_MAX: Final = 5


def group_coordinator(shared: NodeContext, partitions: ReplicaManager, deadlines: Deadlines) -> GroupCoordinator:
    """Create the group coordinator, and register it for changes of partitions and metadata.

    The caller runs `runtime.run`.
    """
    config, loader, effective = shared.config, shared.loader, shared.effective
    linger_ms = config.group_coordinator_append_linger_ms
    settings = RuntimeSettings(
        topic=CONSUMER_OFFSETS,
        partition_count=lambda: group_partition_count(loader.image, effective.config),
        write_timeout_ms=config.offsets_commit_timeout_ms,
        load_buffer_bytes=config.offsets_load_buffer_size,
        compression=Compression(config.offsets_topic_compression_codec),
        append_linger_ms=_LINGER_MS_MAX if linger_ms == _ADAPTIVE else linger_ms,
    )
    runtime = CoordinatorRuntime(
        settings,
        lambda context: GroupCoordinatorShard(context, GroupConfig.of(config)),
        partitions=partitions,
        deadlines=deadlines,
        now_ms=lambda: int(shared.env.wall() * 1000),
        image=lambda: loader.image,
        trace=shared.env.trace,
    )
    partitions.when_led(runtime.leadership_changed)
    loader.add_publisher(runtime.publish)
    return GroupCoordinator(
        runtime,
        lambda: effective.config,
        shared.env.rng,
        has_consumer_groups=lambda: loader.image.features.get(GROUP_VERSION, 0) > 0,
    )
