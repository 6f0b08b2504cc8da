"""Compares a segment's index files with its batches, and collects the entries that are true.

The batches are passed in their order. Nothing in an index is trusted: each entry must name a batch that is there.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from broker.storage.offset_index import OffsetIndex
from broker.storage.time_index import TimeIndex
from broker.wire.records.batch import NO_TIMESTAMP

_NONE_LEFT: Final = 2**63 - 1


class OffsetIndexCheck:
    """Checks the content of an offset index; None if there is no file. `next_position` is that of the next entry.

    `problem` says what is wrong, "" while nothing is. `positions` and `offsets` are the entries of a new index.
    """

    __slots__ = ("_at", "_base_offset", "_content", "next_position", "offsets", "positions", "problem")

    def __init__(self, content: bytes | None, base_offset: int) -> None:
        self._content = content or b""
        self._base_offset = base_offset
        self._at = -OffsetIndex.ENTRY.size
        self.problem = _problem_of_size(content, OffsetIndex.ENTRY.size)
        self.offsets, self.positions = array("i"), array("i")
        self.next_position = -1
        self._advance()

    def check(self, position: int, last_offset: int) -> None:
        """Compare the entry at `next_position`, or before, with the batch at `position`."""
        while self.next_position <= position:
            relative_offset, _ = OffsetIndex.ENTRY.unpack_from(self._content, self._at)
            if self.next_position < position or relative_offset + self._base_offset != last_offset:
                self.problem = self.problem or f"the entry at byte {self._at} names no batch"
            self._advance()

    def add(self, position: int, last_offset: int) -> None:
        """Add an entry to the new index."""
        self.offsets.append(last_offset - self._base_offset)
        self.positions.append(position)

    def positions_after(self, position: int) -> Iterator[int]:
        """The positions in the remaining entries that are after `position`, true or not."""
        for _, each in OffsetIndex.ENTRY.iter_unpack(self._content[self._at :][: -_excess(self._content) or None]):
            if each > position:
                yield each

    def finish(self) -> None:
        """Say that all batches were passed."""
        if self.next_position != _NONE_LEFT:
            self.problem = self.problem or f"the entry at byte {self._at} names no batch"

    def _advance(self) -> None:
        before = self.next_position
        self._at += OffsetIndex.ENTRY.size
        if self._at + OffsetIndex.ENTRY.size > len(self._content):
            self.next_position = _NONE_LEFT
            return
        self.next_position = OffsetIndex.ENTRY.unpack_from(self._content, self._at)[1]
        if self.next_position <= before:
            self.problem = self.problem or f"the entry at byte {self._at} does not follow the one before it"


class TimeIndexCheck:
    """Checks the content of a time index; None if there is no file. `largest` is the largest timestamp so far.

    `largest_offset` is the last offset of the first batch that has it. `problem` says what is wrong, "" while nothing
    is. `timestamps` and `offsets` are the entries of a new index.
    """

    __slots__ = (
        "_at",
        "_base_offset",
        "_content",
        "_last",
        "_next",
        "largest",
        "largest_offset",
        "offsets",
        "problem",
        "timestamps",
    )

    def __init__(self, content: bytes | None, base_offset: int) -> None:
        self._content = content or b""
        self._base_offset = base_offset
        self._at = -TimeIndex.ENTRY.size
        self._next = self._last = NO_TIMESTAMP
        self.problem = _problem_of_size(content, TimeIndex.ENTRY.size)
        self.timestamps, self.offsets = array("q"), array("i")
        self.largest, self.largest_offset = NO_TIMESTAMP, base_offset
        self._advance()

    def grow(self, timestamp: int, last_offset: int) -> None:
        """Compare the next entry with a batch whose largest timestamp is larger than `largest`."""
        self.largest, self.largest_offset = timestamp, last_offset
        while self._next <= timestamp:
            relative_offset = TimeIndex.ENTRY.unpack_from(self._content, self._at)[1]
            if self._next < timestamp or relative_offset + self._base_offset != last_offset:
                self.problem = self.problem or f"the entry at byte {self._at} names no batch"
            self._advance()

    def add(self) -> None:
        """Add an entry of the largest timestamp so far to the new index, unless it has one."""
        if self.largest > (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            self.timestamps.append(self.largest)
            self.offsets.append(self.largest_offset - self._base_offset)

    def finish(self, *, is_complete: bool) -> None:
        """Say that all batches were passed. `is_complete` requires an entry of the largest timestamp."""
        if self._next != _NONE_LEFT:
            self.problem = self.problem or f"the entry at byte {self._at} names no batch"
        if is_complete and self._last != self.largest:
            self.problem = self.problem or "it does not end with the largest timestamp"
        self.add()

    def _advance(self) -> None:
        self._at += TimeIndex.ENTRY.size
        self._last = self._next
        if self._at + TimeIndex.ENTRY.size > len(self._content):
            self._next = _NONE_LEFT
            return
        self._next = TimeIndex.ENTRY.unpack_from(self._content, self._at)[0]
        if self._next <= self._last:
            self.problem = self.problem or f"the entry at byte {self._at} does not follow the one before it"


def _excess(content: bytes) -> int:
    return len(content) % OffsetIndex.ENTRY.size


def _problem_of_size(content: bytes | None, entry_size: int) -> str:
    if content is None:
        return "it is missing"
    excess = len(content) % entry_size
    return f"{excess} bytes at its end are no entry" if excess else ""
