"""The files of a replica: the log, its snapshots, and the epoch and vote."""

from kraft.log.durable_end_file import FILE_NAME as DURABLE_END
from kraft.log.durable_log import CorruptLog, DurableLog, EntriesLost, is_log
from kraft.log.file_checks import DamagedFile, ReplicaFiles
from kraft.log.quorum_state_file import FILE_NAME as QUORUM_STATE
from kraft.log.quorum_state_file import QuorumStateFile, QuorumStateLost
from kraft.log.snapshots import Snapshot, Snapshots, is_snapshot

__all__ = [
    "DURABLE_END",
    "QUORUM_STATE",
    "CorruptLog",
    "DamagedFile",
    "DurableLog",
    "EntriesLost",
    "QuorumStateFile",
    "QuorumStateLost",
    "ReplicaFiles",
    "Snapshot",
    "Snapshots",
    "is_log",
    "is_snapshot",
]
