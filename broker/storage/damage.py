"""Ranges of offsets whose bytes on this broker's disk are damaged, and reads that stop before them.

Damage is known while the process runs: a restart finds it again. The repair is in
`broker.replication.damaged_replicas`.
"""

import contextlib
from typing import Final

import attrs

from broker.storage.batch_scan import scan_headers
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import CorruptBatch
from kraft.env import File

# A read near damage searches its batches one by one, so it returns at most this many bytes.
CAREFUL_READ_BYTES: Final = 128 * 1024


@attrs.frozen
class Damage:
    """The batches of `file` from `first_offset` to `end_offset` (exclusive), which cannot be trusted.

    `cause` says what is wrong with them, as text.
    """

    file: str
    first_offset: int
    end_offset: int
    cause: str

    def __str__(self) -> str:
        return f"offsets {self.first_offset} to {self.end_offset - 1} in {self.file}: {self.cause}"


@attrs.define
class DamagedRanges:
    """The damage of one log, ascending by offset.

    `error` is the code for a read that begins in a damaged range. KAFKA_STORAGE_ERROR makes clients look for another
    leader; CORRUPT_MESSAGE makes them report the offset.
    """

    ranges: tuple[Damage, ...] = ()
    error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR

    def add(self, damage: Damage) -> bool:
        """Add damage; False if all of it is known."""
        if any(
            each.first_offset <= damage.first_offset and damage.end_offset <= each.end_offset for each in self.ranges
        ):
            return False
        kept = [
            each
            for each in self.ranges
            if not (damage.first_offset <= each.first_offset and each.end_offset <= damage.end_offset)
        ]
        self.ranges = tuple(sorted((*kept, damage), key=lambda each: each.first_offset))
        return True

    def keep(self, first_offset: int, end_offset: int) -> None:
        """Forget the damage outside of these offsets, as that part of the log is gone or was replaced."""
        self.ranges = tuple(
            each for each in self.ranges if each.first_offset < end_offset and each.end_offset > first_offset
        )

    def remove(self, first_offset: int, end_offset: int) -> None:
        """Forget the damage within these offsets, which were replaced."""
        self.ranges = tuple(
            each for each in self.ranges if each.end_offset <= first_offset or each.first_offset >= end_offset
        )

    def intact_size(self, file: File, written: int, offset: int, position: int, size: int) -> int:
        """How many of `size` bytes at `position`, where the batch with `offset` is, precede damaged batches.

        `written` is the end of the file. Raises KafkaError `error` if the first batch is damaged, OSError.
        """
        damage = next((each for each in self.ranges if each.end_offset > offset), None)
        if damage is None or size == 0:
            return size
        intact_end = position
        if offset < damage.first_offset:
            stop = position + min(size, CAREFUL_READ_BYTES)
            intact_end = _intact_end(file, position, stop, written, damage.first_offset)
        if intact_end == position:
            raise KafkaError(self.error, f"damaged: {damage}")
        return min(intact_end - position, size)


def _intact_end(file: File, position: int, stop: int, written: int, first_offset: int) -> int:
    """The position where the batches from `position` on reach `first_offset`, or the first one that ends after `stop`.

    The header of a damaged batch cannot be trusted: it may claim any offset and any size.
    """
    next_offset = -1
    with contextlib.suppress(CorruptBatch):
        for at, header in scan_headers(file, position, written):
            if at >= stop or header.base_offset < next_offset or header.last_offset >= first_offset:
                break
            position, next_offset = at + header.size, header.next_offset
    return position
