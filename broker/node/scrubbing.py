"""The scrubber of a node, with its settings, and with what repairs the damage that it finds."""

from broker.config import KafkaConfig
from broker.node.metadata_scrub import MetadataScrub
from broker.node.node_context import NodeContext
from broker.replication.replica_manager import ReplicaManager
from broker.storage.log_manager import LogManager
from broker.storage.scrub import Scrubber, ScrubConfig
from metadata.configuration.settings import settings_from
from metadata.snapshot_generator import SnapshotGenerator


def make_scrubber(
    shared: NodeContext, log_manager: LogManager, partitions: ReplicaManager, snapshots: SnapshotGenerator
) -> Scrubber:
    """The scrubber of a node, which follows changes of its settings. The caller runs it once the logs are loaded."""
    metadata = MetadataScrub(shared.quorum, shared.loader, snapshots, shared.env.trace)
    scrubber = Scrubber(
        shared.env, log_manager, settings_from(ScrubConfig, shared.config), partitions.report_damage, metadata
    )

    def reconfigure(config: KafkaConfig) -> None:
        scrubber.configure(settings_from(ScrubConfig, config))

    shared.effective.add_listener(reconfigure)
    if shared.metrics is not None:
        shared.metrics.add_scrubber(scrubber.statistics)
    return scrubber
