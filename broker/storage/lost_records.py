"""Describes to the operator which records recovery found to be lost: the offsets, the file, and the reason."""

from collections.abc import Sequence
from typing import Final

import attrs

from broker.storage.segment import Segment
from broker.wire.errors import WireError
from broker.wire.records import HEADER_SIZE, read_header
from kraft import lazy_attrs
from kraft.env import File, Tracer

# The most offsets in a batch: its last offset delta is an int32.
_BATCH_OFFSETS_MAX: Final = 2**31
_CHUNK_BYTES: Final = 1024 * 1024


@lazy_attrs.frozen
class LostRecords:
    """The lost records from `from_offset` to `to_offset` (exclusive).

    If `is_known` is False, more may be lost: after the damage the start of further batches is unknown.
    """

    from_offset: int
    to_offset: int
    is_known: bool

    def __str__(self) -> str:
        if self.to_offset <= self.from_offset:
            return f"the records from offset {self.from_offset} on, an unknown number of them,"
        count = self.to_offset - self.from_offset
        rest = "" if self.is_known else ", and what may have followed them,"
        return f"the records from offset {self.from_offset} to {self.to_offset - 1} ({count} at most){rest}"


@lazy_attrs.frozen
class Cut:
    """The part of a log that recovery removes: the file `path` from byte `position` on, and all later segments."""

    lost: LostRecords
    path: str
    position: int
    size_bytes: int
    reason: str

    def trace_loss(self, trace: Tracer, partition: str, durable_end: int) -> None:
        """Trace the cut. `durable_end` is the checkpointed recovery point, which the log had reached at least."""
        lost = attrs.evolve(self.lost, to_offset=max(self.lost.to_offset, durable_end))
        trace(
            "storage_log_cut",
            partition=partition,
            lost=str(lost),
            from_offset=lost.from_offset,
            to_offset=lost.to_offset,
            path=self.path,
            position=self.position,
            bytes=self.size_bytes,
            reason=self.reason,
        )


def cut_within(segment: Segment, later: Sequence[Segment], end_offset: int, reason: str) -> Cut | None:
    """The cut of a segment after its last good batch, which ends at `end_offset`, and of all `later` segments.

    None if only zeros are removed: a power cut leaves them after a file's last write, and they never were records.
    Raises OSError.
    """
    position, end = segment.size_bytes, segment.written
    if not later and _is_zero(segment.file, position, end):
        return None
    lost = _from_headers(segment.file, position, end, end_offset)
    size_bytes = end - position + sum(each.size_bytes for each in later)
    return Cut(_with_later(lost, later), segment.path, position, size_bytes, reason)


def cut_before(segments: Sequence[Segment], end_offset: int, reason: str) -> Cut:
    """The cut of segments that do not continue the log, which ends at `end_offset`. Raises OSError."""
    lost = _with_later(LostRecords(end_offset, end_offset, True), segments)
    return Cut(lost, segments[0].path, 0, sum(each.size_bytes for each in segments), reason)


def _with_later(lost: LostRecords, later: Sequence[Segment]) -> LostRecords:
    if not later:
        return lost
    try:
        end_offset = later[-1].load_end()
    except WireError:
        return LostRecords(lost.from_offset, max(lost.to_offset, later[-1].base_offset), False)
    return LostRecords(lost.from_offset, max(lost.to_offset, end_offset), True)


def _from_headers(file: File, position: int, end: int, from_offset: int) -> LostRecords:
    """The offsets in the consecutive batch headers from `position` on, whether or not the batches are intact."""
    offset = from_offset
    while position + HEADER_SIZE <= end:
        try:
            header = read_header(file.read(position, HEADER_SIZE))
        except WireError:
            break
        if header.base_offset < offset or not 0 <= header.last_offset - offset < _BATCH_OFFSETS_MAX:
            break
        offset, position = header.next_offset, position + header.size
    return LostRecords(from_offset, offset, position >= end)


def _is_zero(file: File, position: int, end: int) -> bool:
    while position < end:
        chunk = file.read(position, min(_CHUNK_BYTES, end - position))
        if not chunk or chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True
