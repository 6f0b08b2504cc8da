"""Compaction: only the last record of each key is kept in a compacted topic's log.

`log_to_clean` finds the part of a log that may be cleaned, `OffsetMap` holds the last offset of each key in its dirty
part, `RecordRetention` decides which records of a batch stay, `Compaction` cleans one log, and `Cleaner` cleans the
dirtiest logs first.
"""

from broker.storage.cleaner.cleaner import Cleaner, CleanerConfig

__all__ = ["Cleaner", "CleanerConfig"]
