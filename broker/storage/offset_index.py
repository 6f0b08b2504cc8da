"""The offset index of a segment, `<base offset>.index`: the positions of some offsets in the log file.

An entry is the int32 last offset of a batch relative to the base offset, and the int32 position of that batch. There is
about one entry per index.interval.bytes. A segment's first batch has none, as a search starts there without an entry.

A flipped bit in the file can make an entry name another position or another batch. Readers therefore compare an entry
with the batch that they find, and use an earlier entry if the two differ (`Segment.find`).
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import ClassVar

from broker.storage.sparse_index import SparseIndex

# The offset of an entry that is none.
NO_OFFSET = -1
RELATIVE_OFFSET_MAX = 2**31 - 1


class OffsetIndex(SparseIndex):
    """Kafka's OffsetIndex; offsets are absolute here."""

    ENTRY: ClassVar[Struct] = Struct(">ii")
    KEY_TYPE: ClassVar[str] = "i"

    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        self._append(last_offset - self.base_offset, position)

    def lookup(self, offset: int) -> int:
        """A position at or before the first batch that ends after `offset`."""
        slot = bisect_right(self.keys, offset - self.base_offset) - 1
        return self.values[slot] if slot >= 0 else 0

    def entry_before(self, offset: int) -> tuple[int, int]:
        """The first of `entries_before`, which is the fastest way to it; NO_OFFSET and 0 without one."""
        keys = self.keys
        slot = bisect_right(keys, offset - self.base_offset) - 1
        return (self.base_offset + keys[slot], self.values[slot]) if slot >= 0 else (NO_OFFSET, 0)

    def entries_before(self, offset: int) -> Iterator[tuple[int, int]]:
        """Entries of batches that end at `offset` or before, with offset and position: the last one, then earlier ones.

        The distance between two of them doubles, so that an index without a single true entry costs few steps.
        """
        slot, step = bisect_right(self.keys, offset - self.base_offset) - 1, 1
        while slot >= 0:
            yield self.base_offset + self.keys[slot], self.values[slot]
            slot, step = slot - step, step * 2

    def entries_from(self, position: int) -> Iterator[tuple[int, int]]:
        """Entries of batches at `position` or after, with offset and position: the first one, then later ones."""
        slot, step = bisect_left(self.values, position) if self.keys else 0, 1
        while slot < len(self.values):
            yield self.base_offset + self.keys[slot], self.values[slot]
            slot, step = slot + step, step * 2

    def last_position_before(self, position: int) -> int:
        """The last position of an entry that is before `position`; 0 without one."""
        slot = bisect_left(self.values, position) - 1
        return self.values[slot] if slot >= 0 else 0

    def last(self) -> tuple[int, int]:
        """The last entry's offset and position; the base offset and 0 without one.

        Raises CorruptIndex, FileNotFoundError, OSError.
        """
        last = self._last()
        return (self.base_offset, 0) if last is None else (self.base_offset + last[0], last[1])

    def truncate_to(self, offset: int, entries: Sequence[tuple[int, int]] = ()) -> None:
        """Drop the entries at or beyond `offset`, and add `entries` unless others contradict them. Raises OSError."""
        self._truncate(bisect_left(self.keys, offset - self.base_offset))
        for last_offset, position in entries:
            key = last_offset - self.base_offset
            if not self.keys or (key > self.keys[-1] and position > self.values[-1]):
                self._append(key, position)

    def _decode(self, content: bytes) -> "tuple[array[int], array[int]]":
        # A full index has over a million entries: the columns are taken as a whole, not entry by entry.
        words = array("i")
        words.frombytes(content)
        if sys.byteorder == "little":
            words.byteswap()
        return words[0::2], words[1::2]
