"""Reads the batches of one segment again, in steps that a thread performs, and compares the indexes with them.

A step checks a bounded number of batches, so that it keeps the interpreter for less than a millisecond. It stops at the
first batch that is not intact, which is then a *suspect*: the caller reads it again while nothing else can change the
log, and calls `skip` if it is damaged.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import attrs

from broker.storage.scrub.index_checks import OffsetIndexCheck, TimeIndexCheck
from broker.storage.scrub.transactions_check import TransactionsCheck
from broker.wire.records import HEADER, HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from broker.wire.records.batch import ATTRIBUTES_POSITION, CONTROL_FLAG, LENGTH_MIN, MAGIC, TRANSACTIONAL_FLAG
from kraft import lazy_attrs
from kraft.checksums import crc32c
from kraft.env import File

PIECE_BYTES: Final = 256 * 1024
BATCHES_PER_STEP: Final = 200
# Batches with other epochs than the log's are kept apart up to this number.
DIFFERING_MAX: Final = 1000
_LENGTH_AND_MAGIC: Final = Struct(">8xi4xb")


class EpochStart(NamedTuple):
    """A leader epoch that the log remembers, and the offset at which it begins."""

    epoch: int
    start_offset: int


class EpochRun(NamedTuple):
    """Consecutive batches of one leader epoch, from `position` in the file on."""

    epoch: int
    first_offset: int
    last_offset: int
    position: int


_BEFORE_ALL: Final = EpochStart(-1, -1)
_NO_EPOCH: Final = EpochStart(-1, 2**63 - 1)


@lazy_attrs.frozen
class Suspect:
    """The batch at `position`, which should follow at `next_offset`, is not intact; `cause` says why.

    `size` is what its header claims, 0 if that is absurd.
    """

    position: int
    next_offset: int
    size: int
    cause: str


def batch_size(piece: bytes, at: int = 0) -> int:
    """The size of the batch whose header is at `at` of `piece`; 0 if there is none."""
    if len(piece) - at < HEADER_SIZE:
        return 0
    length, magic = _LENGTH_AND_MAGIC.unpack_from(piece, at)
    return int(length) + LOG_OVERHEAD if magic == MAGIC and length >= LENGTH_MIN else 0


@lazy_attrs.define(eq=False)
class SegmentCheck:
    """The check of the batches of `file` up to `end`. Only one thread may use it at a time.

    `allows_gaps` says that compaction has left gaps between offsets. `later_epochs` are those that the log remembers;
    `differing` are the batches that have others, and `epochs` those of all batches. `bytes_read` counts what was read.
    `next_offset` is the end of the last batch. `is_whole` becomes False once a damaged batch was skipped.
    """

    file: File
    base_offset: int
    offset_max: int
    end: int
    allows_gaps: bool
    index_interval_bytes: int
    offset_index: OffsetIndexCheck
    time_index: TimeIndexCheck
    transactions: TransactionsCheck
    _later_epochs: Iterator[EpochStart]
    next_offset: int
    position: int = 0
    bytes_read: int = 0
    is_whole: bool = True
    suspect: Suspect | None = None
    epochs: list[EpochRun] = attrs.field(factory=list)
    differing: list[EpochRun] = attrs.field(factory=list)
    _epoch: int = -1
    _next_epoch: EpochStart = _BEFORE_ALL
    _piece: bytes = b""
    _piece_at: int = 0
    _unindexed_bytes: int = 0

    def step(self) -> None:
        """Check the next batches. A part of the file that cannot be read is a suspect."""
        try:
            for _ in range(BATCHES_PER_STEP):
                if self.position >= self.end:
                    return
                at = self._locate()
                self.suspect = self.suspect_in(self._piece, at, self.position, self.next_offset)
                if self.suspect is not None:
                    return
                self._take(at)
        except OSError as error:
            self.suspect = Suspect(self.position, self.next_offset, 0, str(error))

    def _locate(self) -> int:
        """The place of the next batch in the piece, which is read first if it does not have the whole batch."""
        at = self.position - self._piece_at
        if at + self._size_at(at) > len(self._piece):
            self._read(HEADER_SIZE)
            at, size = 0, self._size_at(0)
            if size > len(self._piece):
                self._read(size)
        return at

    def _size_at(self, at: int) -> int:
        """The size of the batch at `at` of the piece; that of a header if it is not known."""
        size = batch_size(self._piece, at)
        return size if size and self._piece_at + at + size <= self.end else HEADER_SIZE

    def suspect_in(self, piece: bytes, at: int, position: int, next_offset: int) -> Suspect | None:
        """Why the bytes at `at` of `piece` are not the batch of `position` that follows at `next_offset`.

        None if they are.
        """
        if len(piece) - at < HEADER_SIZE:
            return Suspect(position, next_offset, 0, f"the last {self.end - position} bytes are no batch")
        base, length, _, magic, crc, _, delta, _, _, _, _, _, count = HEADER.unpack_from(piece, at)
        size = length + LOG_OVERHEAD
        cause = ""
        if magic != MAGIC or length < LENGTH_MIN or position + size > self.end:
            size, cause = 0, "the header is not that of a batch"
        elif at + size > len(piece):
            cause = "the file ends within the batch"
        elif crc32c(memoryview(piece)[at + ATTRIBUTES_POSITION : at + size]) != crc:
            cause = "the batch does not have its checksum"
        elif base < next_offset or (base > next_offset and not self.allows_gaps):
            cause = f"base offset {base} cannot follow at {next_offset}"
        elif delta < 0 or not 0 <= count <= delta + 1 or base + delta > self.offset_max:
            cause = "the offsets of the batch are out of range"
        return Suspect(position, next_offset, size, f"byte {position}: {cause}") if cause else None

    def skip(self) -> int:
        """Go on after the suspect, which is damaged; returns the offset from which on batches are intact again.

        Returns -1 if none of this segment is. The header of the damaged batch and the entries of the index may lead to
        later batches, which are used if they are intact.
        """
        suspect, self.suspect = self.suspect, None
        assert suspect is not None, "there is a suspect"
        self.is_whole = self.transactions.is_complete = False
        following = [suspect.position + suspect.size] if suspect.size else []
        for position in (*following, *self.offset_index.positions_after(suspect.position)):
            base_offset = self._intact_base_at(position)
            if base_offset >= 0:
                self.position, self.next_offset = position, base_offset
                return base_offset
        self.position = self.end
        return -1

    def _intact_base_at(self, position: int) -> int:
        """The base offset of the batch at `position`; -1 if it is not intact, or not after the damaged one."""
        try:
            header = self.file.read(position, HEADER_SIZE)
            size = batch_size(header)
            if not size or position + size > self.end:
                return -1
            base, _, _, _, crc, *_ = HEADER.unpack(header)
            body = self.file.read(position + ATTRIBUTES_POSITION, size - ATTRIBUTES_POSITION)
        except OSError:
            return -1
        return int(base) if base > self.next_offset and crc32c(body) == crc else -1

    def read_again(self) -> None:
        """Read the next batch from the file again."""
        self._piece, self._piece_at, self.suspect = b"", self.position, None

    def _read(self, size: int) -> None:
        """Read a piece from `position` on, of at least `size` bytes if the file has them.

        If the disk cannot read all of the piece, it is only `size` bytes: the batches before a bad sector are intact.
        """
        left = self.end - self.position
        try:
            self._piece = self.file.read_from_device(self.position, min(max(size, PIECE_BYTES), left))
        except OSError:
            self._piece = self.file.read_from_device(self.position, min(size, left))
        self._piece_at = self.position
        self.bytes_read += len(self._piece)

    def _take(self, at: int) -> None:
        """Apply the intact batch at `at` of the piece."""
        fields = HEADER.unpack_from(self._piece, at)
        base, length, epoch, _, _, attributes, delta, _, timestamp, producer_id, *_ = fields
        position, size, last_offset = self.position, length + LOG_OVERHEAD, base + delta
        if timestamp > self.time_index.largest:
            self.time_index.grow(timestamp, last_offset)
        if position >= self.offset_index.next_position:
            self.offset_index.check(position, last_offset)
        unindexed = self._unindexed_bytes
        self._unindexed_bytes = unindexed + size
        if unindexed > self.index_interval_bytes:
            self.offset_index.add(position, last_offset)
            self.time_index.add()
            self._unindexed_bytes = size
        if producer_id >= 0 and attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            batch = self._piece[at : at + size] if attributes & CONTROL_FLAG else b""
            self.transactions.add(BatchHeader(*fields), batch)
        if self.epochs and self.epochs[-1].epoch == epoch:
            _, first_offset, _, first_position = self.epochs[-1]
            self.epochs[-1] = EpochRun(epoch, first_offset, last_offset, first_position)
        else:
            self.epochs.append(EpochRun(epoch, base, last_offset, position))
        while base >= self._next_epoch.start_offset:
            self._epoch, self._next_epoch = self._next_epoch.epoch, next(self._later_epochs, _NO_EPOCH)
        if epoch != self._epoch and len(self.differing) < DIFFERING_MAX:
            self.differing.append(EpochRun(epoch, base, last_offset, position))
        self.position, self.next_offset = position + size, last_offset + 1
