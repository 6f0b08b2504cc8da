"""The files of a replica: the log, its snapshots, and the epoch and vote."""

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
