"""The durable log of one node: append, epochs, fsync, recovery."""

from kraft.log.durable_log import CorruptLog, DurableLog

__all__ = ["CorruptLog", "DurableLog"]
