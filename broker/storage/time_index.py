"""The time index of a segment, `<base offset>.timeindex`: the growth of the largest timestamp.

An entry is an int64 timestamp and an int32 relative offset: the largest timestamp so far, and the last offset of its
batch. An entry is added with each entry of the offset index if the timestamp has grown, and when the segment is rolled
or closed, so that the last entry is the segment's largest timestamp.

A flipped bit in the file can make an entry wrong. A search therefore begins one entry earlier than it has to, and the
last entry is compared with the batch that it names (`Segment.largest_timestamp`).
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import ClassVar

from broker.storage.sparse_index import SparseIndex
from broker.wire.records.batch import NO_TIMESTAMP


class TimeIndex(SparseIndex):
    """Kafka's TimeIndex; offsets are absolute here."""

    ENTRY: ClassVar[Struct] = Struct(">qi")
    KEY_TYPE: ClassVar[str] = "q"

    __slots__ = ()

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry, if the timestamp is larger than the last entry's."""
        keys = self.keys
        if timestamp > (keys[-1] if keys else NO_TIMESTAMP):
            self._append(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> int:
        """An offset at or before the first batch with a larger timestamp than `timestamp`, if one entry is wrong, too.

        The entry before the last one with at most `timestamp`: even if the last one is wrong, no such batch is before.
        """
        slot = bisect_right(self.keys, timestamp) - 2
        return self.base_offset + self.values[slot] if slot >= 0 else self.base_offset

    def last(self) -> tuple[int, int]:
        """The largest timestamp and its batch's last offset; (-1, base offset) without an entry.

        Raises CorruptIndex, FileNotFoundError, OSError.
        """
        last = self._last()
        return (NO_TIMESTAMP, self.base_offset) if last is None else (last[0], self.base_offset + last[1])

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond `offset`. Raises OSError."""
        keys = self.keys
        self._truncate(bisect_left(self.values, offset - self.base_offset) if keys else 0)

    def _decode(self, content: bytes) -> "tuple[array[int], array[int]]":
        timestamps, offsets = array("q"), array("i")
        for timestamp, relative_offset in self.ENTRY.iter_unpack(content):
            timestamps.append(timestamp)
            offsets.append(relative_offset)
        return timestamps, offsets
