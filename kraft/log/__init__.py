"""What a node keeps on disk: the log (append, truncate, read, recovery), snapshots, and its epoch and vote."""

from kraft.log.durable_log import CorruptLog, DurableLog, is_log
from kraft.log.quorum_state_file import QuorumStateFile, QuorumStateLost
from kraft.log.snapshots import Snapshot, Snapshots, is_snapshot

__all__ = [
    "CorruptLog",
    "DurableLog",
    "QuorumStateFile",
    "QuorumStateLost",
    "Snapshot",
    "Snapshots",
    "is_log",
    "is_snapshot",
]
