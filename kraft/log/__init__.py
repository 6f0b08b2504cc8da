"""What a node keeps on disk: the log (append, truncate, read, recovery), snapshots, and its epoch and vote."""

from kraft.log.durable_log import CorruptLog, DurableLog
from kraft.log.election_file import ElectionFile, LostElection
from kraft.log.snapshots import Snapshot, Snapshots

__all__ = ["CorruptLog", "DurableLog", "ElectionFile", "LostElection", "Snapshot", "Snapshots"]
