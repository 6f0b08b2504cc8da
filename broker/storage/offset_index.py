"""The offset index of a segment, `<base offset>.index`: the positions of some offsets in the log file.

An entry is the int32 last offset of a batch relative to the base offset, and the int32 position of that batch. There is
about one entry per index.interval.bytes. A segment's first batch has none, as a search starts there without an entry.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import ClassVar

from broker.storage.log_config import MAX_LONG
from broker.storage.sparse_index import SparseIndex

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

    def offset_after(self, position: int) -> int:
        """An offset after all records of the batches before `position`; the largest one if no entry tells."""
        slot = bisect_left(self.values, position) if self.keys else len(self.values)
        return self.base_offset + self.keys[slot] if slot < len(self.values) else MAX_LONG

    def last(self) -> tuple[int, int]:
        """The last entry's offset and position; the base offset and 0 without one.

        Raises CorruptIndex, FileNotFoundError, OSError.
        """
        last = self._last()
        return (self.base_offset, 0) if last is None else (self.base_offset + last[0], last[1])

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond `offset`. Raises OSError."""
        self._truncate(bisect_left(self.keys, offset - self.base_offset))

    def _decode(self, content: bytes) -> "tuple[array[int], array[int]]":
        # A full index has over a million entries: the columns are taken as a whole, not entry by entry.
        words = array("i")
        words.frombytes(content)
        if sys.byteorder == "little":
            words.byteswap()
        return words[0::2], words[1::2]
