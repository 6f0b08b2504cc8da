"""Raft's properties (figure 3 of the paper), checked after every step of every replica."""

from collections.abc import Mapping, Sequence

from kraft.core import OffsetAndEpoch, ReplicaKey, VoterSet
from kraft.core.quorum import majority
from kraft.replicated_log import Batch
from tests.support.raft_disk import RaftDisk


class Violation(AssertionError):
    """A property of Raft is violated."""


class Invariants:
    """Records all elections, appended entries and commits of all replicas."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, Batch] = {}
        self.committed_end_offset = 0
        # The durable contents of each lost disk.
        self.lost_disks: dict[ReplicaKey, int] = {}
        self._before: dict[tuple[int, int], tuple[Batch, OffsetAndEpoch]] = {}
        self._commits: dict[int, int] = {}

    def elected(self, node_id: int, epoch: int) -> None:
        """Election safety: an epoch has at most one leader, which is elected once."""
        if epoch in self.leaders:
            raise Violation(f"node {self.leaders[epoch]} led in epoch {epoch}, and now node {node_id} does")
        self.leaders[epoch] = node_id

    def leads(self, node_id: int, epoch: int, history: Sequence[Batch]) -> None:
        """Leader completeness: a leader has all entries that were committed in earlier epochs."""
        mine = {batch.base_offset: batch for batch in history}
        for offset, batch in self.committed.items():
            if batch.epoch < epoch and mine.get(offset) != batch:
                raise Violation(f"node {node_id} leads in epoch {epoch} without the committed entry at {offset}")

    def appended(self, node_id: int, end: OffsetAndEpoch, batches: Sequence[Batch]) -> None:
        """Log matching: entries with the same offset and epoch are equal, and so are all entries before them."""
        for batch in batches:
            written = (batch, end)
            known = self._before.setdefault((batch.base_offset, batch.epoch), written)
            if known != written:
                raise Violation(f"node {node_id} wrote {batch} after {end}, another {known[0]} after {known[1]}")
            end = OffsetAndEpoch(batch.last_offset + 1, batch.epoch)

    def commits(self, node_id: int, end_offset: int, history: Sequence[Batch]) -> None:
        """State machine safety: all replicas that have committed an offset have the same entry there."""
        if end_offset < self._commits.get(node_id, 0):
            raise Violation(f"node {node_id} takes back its commit")
        self._commits[node_id] = end_offset
        for batch in history:
            if batch.base_offset >= end_offset:
                break
            if self.committed.setdefault(batch.base_offset, batch) != batch:
                raise Violation(f"node {node_id} has {batch} committed, another {self.committed[batch.base_offset]}")
        self.committed_end_offset = max(self.committed_end_offset, end_offset)

    def leader_commits(self, end_offset: int, voters: VoterSet, disks: Mapping[int, RaftDisk]) -> None:
        """A committed entry is durable on a majority of the voters (Raft's paper, section 5.3).

        A disk that was lost after it acknowledged counts with its former contents, because it no longer votes.
        """
        holders = 0
        for voter in voters.voters:
            disk = disks[voter.node_id]
            same = voter.key.directory_id in ("", disk.directory_id)
            holders += (disk.synced_end_offset if same else self.lost_disks[voter.key]) >= end_offset
        if holders < majority(len(voters.voters)):
            raise Violation(f"{end_offset} is committed with {holders} of {len(voters.voters)} voters")

    def restarts(self, node_id: int) -> None:
        """After a restart, a replica may start with a lower high watermark."""
        self._commits.pop(node_id, None)
