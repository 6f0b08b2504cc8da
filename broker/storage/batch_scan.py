"""Scans the batches of a segment's file, either their headers only or with their checksums."""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from broker.storage.offset_index import NO_OFFSET, RELATIVE_OFFSET_MAX
from broker.wire.records import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, CorruptBatch, check_crc, read_header
from broker.wire.records.batch import MAGIC, MAGIC_POSITION
from kraft import lazy_attrs
from kraft.env import File

# The read size of a header scan: about the distance of two index entries by default.
HEADER_CHUNK: Final = 4096
HEADER_CHUNK_LONG: Final = 64 * 1024
BATCH_CHUNK: Final = 1024 * 1024
# The offset of a batch whose place in the log is not known.
UNKNOWN_OFFSET: Final = -1

# Base offset, length and last offset delta, and the fields between them.
_EXTENT: Final = Struct(">qi11xi")


class BatchPosition(NamedTuple):
    """The position and size of a batch in its segment's file, in bytes."""

    position: int
    size: int


class MisleadingEntry(Exception):
    """An index entry of a batch that is not at the entry's position."""


def ends_with(header: bytes, last_offset: int) -> bool:
    """Whether these bytes begin with the header of a batch that ends with `last_offset`."""
    if len(header) < HEADER_SIZE or header[MAGIC_POSITION] != MAGIC:
        return False
    base_offset, _, last_offset_delta = _EXTENT.unpack_from(header)
    return bool(base_offset + last_offset_delta == last_offset)


def find_batch(file: File, position: int, end: int, offset: int, entry_offset: int = NO_OFFSET) -> BatchPosition | None:
    """The first batch between `position` and `end` whose last offset is at least `offset`.

    `position` must be that of a batch. If an index entry says so, `entry_offset` is the last offset of the batch that
    the entry names, and MisleadingEntry is raised if there is another one. Raises CorruptBatch, OSError.
    """
    chunk, first = b"", position
    if entry_offset != NO_OFFSET:
        chunk = file.read(position, min(HEADER_CHUNK, max(end - position, 0)))
        if not ends_with(chunk, entry_offset):
            raise MisleadingEntry
    while position + HEADER_SIZE <= end:
        at = position - first
        if at + HEADER_SIZE > len(chunk):
            chunk, first, at = file.read(position, min(HEADER_CHUNK, end - position)), position, 0
            if len(chunk) < HEADER_SIZE:
                raise CorruptBatch(f"{file.path} ends before {end}")
        base_offset, length, last_offset_delta = _EXTENT.unpack_from(chunk, at)
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"Found record size {length} smaller than minimum record overhead at {position}")
        if base_offset + last_offset_delta >= offset:
            return BatchPosition(position, length + LOG_OVERHEAD)
        position += length + LOG_OVERHEAD
    return None


def _read_chunk(file: File, position: int, size: int, needed: int) -> bytes:
    """Up to `size` bytes, or up to `needed` if the disk cannot read all: the batches before a bad sector are intact.

    Raises OSError.
    """
    try:
        return file.read(position, size)
    except OSError:
        return file.read(position, min(size, needed))


def scan_headers(
    file: File, position: int, end: int, *, chunk_size: int = HEADER_CHUNK_LONG, base_offset: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from `position` to `end`. Raises CorruptBatch, OSError.

    With the `base_offset` of the segment, an offset that the segment cannot have is damage, too.
    """
    chunk, first = b"", position
    while position < end:
        at = position - first
        if at + HEADER_SIZE > len(chunk):
            chunk, first, at = _read_chunk(file, position, min(chunk_size, end - position), HEADER_SIZE), position, 0
        header = read_header(chunk, at)
        following = position + header.size
        if following > end:
            raise CorruptBatch(f"The batch at {position} of {file.path} ends at {following}, after the end at {end}")
        if base_offset is not None and not 0 <= header.last_offset - base_offset <= RELATIVE_OFFSET_MAX:
            raise CorruptBatch(f"The batch at {position} of {file.path} has the offset {header.last_offset}")
        yield position, header
        position = following


def scan_batches(
    file: File, position: int, end: int, *, chunk_size: int = BATCH_CHUNK
) -> Iterator[tuple[int, BatchHeader]]:
    """As `scan_headers`, and checks the CRC of each batch, so that all bytes are read. Raises CorruptBatch, OSError."""
    chunk, first = b"", position
    while position < end:
        at = position - first
        if at + HEADER_SIZE > len(chunk):
            chunk, first, at = _read_chunk(file, position, min(chunk_size, end - position), HEADER_SIZE), position, 0
        header = read_header(chunk, at)
        size = header.size
        if position + size > end:
            raise CorruptBatch(f"The batch at {position} of {file.path} ends at {position + size}, after {end}")
        if at + size > len(chunk):
            wanted = min(max(chunk_size, size), end - position)
            chunk, first, at = _read_chunk(file, position, wanted, size), position, 0
        check_crc(chunk, at, header)
        yield position, header
        position += size


def check_follows(header: BatchHeader, next_offset: int, leader_epoch: int, *, allows_gaps: bool) -> None:
    """Check the fields that a batch's checksum does not cover; `next_offset` may be UNKNOWN_OFFSET.

    Raises CorruptBatch.
    """
    if header.last_offset_delta < 0 or not 0 <= header.count <= header.last_offset_delta + 1:
        raise CorruptBatch(f"a batch claims {header.count} records and a last offset delta {header.last_offset_delta}")
    if header.partition_leader_epoch > leader_epoch:
        raise CorruptBatch(f"a batch claims the leader epoch {header.partition_leader_epoch}, after {leader_epoch}")
    if next_offset == UNKNOWN_OFFSET or header.base_offset == next_offset:
        return
    if header.base_offset < next_offset or not allows_gaps:
        raise CorruptBatch(f"a batch with base offset {header.base_offset} cannot follow at {next_offset}")


@lazy_attrs.frozen
class IntactBatch:
    """A batch after damage. `is_by_index` says that the damaged batch does not tell where it is."""

    position: int
    header: BatchHeader
    is_by_index: bool


def find_intact(file: File, position: int, written: int, positions: Sequence[int]) -> IntactBatch | None:
    """The first intact batch after a damaged one at `position`, among those that the damaged one and the index tell.

    `positions` are those of batches that the index has, ascending.
    """
    following = claimed_end(file, position)
    if following > position:
        header = intact_header(file, following, written)
        if header is not None:
            return IntactBatch(following, header, is_by_index=False)
    for at in positions:
        header = intact_header(file, at, written) if at > position else None
        if header is not None:
            return IntactBatch(at, header, is_by_index=True)
    return None


def claimed_end(file: File, position: int) -> int:
    """Where the batch at `position` ends according to its header; -1 if it has none."""
    try:
        return position + read_header(file.read(position, HEADER_SIZE), 0).size
    except (CorruptBatch, OSError):
        return -1


def intact_header(file: File, position: int, written: int) -> BatchHeader | None:
    """The header of the batch at `position`; None if there is no intact batch that ends before `written`."""
    try:
        header = read_header(file.read(position, HEADER_SIZE), 0)
        if position + header.size > written:
            return None
        check_crc(file.read(position, header.size), 0, header)
    except (CorruptBatch, OSError):
        return None
    return header
