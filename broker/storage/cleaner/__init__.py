"""Compaction: of a compacted topic's log only the last record of each key is kept.

`cleanable` says what of a log may be cleaned and how much there is to gain, `OffsetMap` knows the last offset of every
key in the part that is dirty, `retention` says what of a batch stays, `Cleaning` does one log, and `Cleaner` does one
after the other, the dirtiest first.
"""

from broker.storage.cleaner.cleaner import Cleaner, CleanerConfig

__all__ = ["Cleaner", "CleanerConfig"]
