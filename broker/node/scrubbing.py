"""The scrubber of a node, with its settings, and with what repairs the damage that it finds.

Entries of the metadata log below the committed end are in the node's image of the metadata, so a snapshot of the image
replaces damaged entries and a damaged snapshot alike. Entries that are not committed yet soon are, or the next pass
finds them again.
"""

from typing import Final

import trio

from broker.config import KafkaConfig
from broker.node.node_context import NodeContext
from broker.replication.replica_manager import ReplicaManager
from broker.storage.log_manager import LogManager
from broker.storage.scrub import Scrubber, ScrubConfig
from broker.storage.scrub.statistics import ScrubStatistics
from kraft.env import Tracer
from kraft.log import DamagedFile
from kraft.raft_node import RaftNode
from metadata.configuration.settings import settings_from
from metadata.image import MetadataLoader
from metadata.snapshot_generator import SnapshotGenerator

# How long damaged entries may take to be committed, and then to be replaced.
_WAIT_S: Final = 10.0
_POLL_S: Final = 0.1
# The pause after which files are checked again that could not be repaired.
_RETRY_S: Final = 30.0
# The pause between checks that other replicas cause.
_BETWEEN_CHECKS_S: Final = 1.0


class _MetadataScrub:
    """Checks the files of `quorum`, and has a new snapshot replace what is damaged."""

    def __init__(self, quorum: RaftNode, loader: MetadataLoader, snapshots: SnapshotGenerator, trace: Tracer) -> None:
        self._quorum = quorum
        self._loader = loader
        self._snapshots = snapshots
        self._trace = trace
        self._checking = trio.Lock()

    async def check(self, statistics: ScrubStatistics) -> None:
        """Check all files, and repair what can be repaired. Raises OSError, FsyncFailed."""
        async with self._checking:
            await self._check(statistics)

    async def check_suspected(self, statistics: ScrubStatistics) -> None:
        """Check the files whenever another replica could not read from them, until cancelled.

        Files that could not be repaired are checked again after a pause.
        """
        files = self._quorum.files
        while True:
            with trio.move_on_after(_RETRY_S):
                await files.wait_suspected()
            if files.is_suspected or statistics.unrepaired:
                await self.check(statistics)
                files.clear_suspicion()
                await trio.sleep(_BETWEEN_CHECKS_S)

    async def _check(self, statistics: ScrubStatistics) -> None:
        files = self._quorum.files
        before = files.bytes_read
        for restored in await files.restore():
            self._rebuilt(restored, statistics)
        damaged = await files.find_damage()
        if damaged:
            await self._replace(damaged, statistics)
        else:
            statistics.unrepaired = {}
        statistics.bytes_read += files.bytes_read - before

    async def _replace(self, damaged: list[DamagedFile], statistics: ScrubStatistics) -> None:
        end_offset = max(each.replaced_by for each in damaged)
        with trio.move_on_after(_WAIT_S):
            while self._loader.image.offset + 1 < end_offset:
                await trio.sleep(_POLL_S)
        await self._snapshots.take_now()
        left = {each.path: each for each in damaged}
        with trio.move_on_after(_WAIT_S):
            while left := {each.path: each for each in await self._quorum.files.find_damage()}:
                await trio.sleep(_POLL_S)  # the log begins at the snapshot a moment later
        statistics.unrepaired = {path: each.problem for path, each in left.items()}
        for each in damaged:
            if each.path not in left:
                self._rebuilt(each, statistics)
        for each in left.values():
            statistics.add_damage()
            self._trace("metadata_file_damaged", path=each.path, error=each.problem)

    def _rebuilt(self, file: DamagedFile, statistics: ScrubStatistics) -> None:
        statistics.unrepaired.pop(file.path, None)
        statistics.add_rebuilt()
        self._trace("metadata_file_rebuilt", path=file.path, error=file.problem)


def make_scrubber(
    shared: NodeContext, log_manager: LogManager, partitions: ReplicaManager, snapshots: SnapshotGenerator
) -> Scrubber:
    """The scrubber of a node, which follows changes of its settings. The caller runs it once the logs are loaded."""
    metadata = _MetadataScrub(shared.quorum, shared.loader, snapshots, shared.env.trace)
    scrubber = Scrubber(
        shared.env, log_manager, settings_from(ScrubConfig, shared.config), partitions.report_damage, metadata
    )

    def reconfigure(config: KafkaConfig) -> None:
        scrubber.configure(settings_from(ScrubConfig, config))

    shared.effective.add_listener(reconfigure)
    if shared.metrics is not None:
        shared.metrics.add_scrubber(scrubber.statistics)
    return scrubber
