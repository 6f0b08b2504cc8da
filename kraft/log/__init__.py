"""What a node keeps on disk: the log (append, truncate, read, recovery), and its epoch and vote."""

from kraft.log.durable_log import CorruptLog, DurableLog
from kraft.log.election_file import ElectionFile

__all__ = ["CorruptLog", "DurableLog", "ElectionFile"]
