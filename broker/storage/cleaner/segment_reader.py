"""Reads the segments that are to be cleaned: whole, intact batches, and their records in portions."""

from collections.abc import Iterable, Iterator
from typing import Final

from broker.wire.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Compression,
    CorruptBatch,
    InvalidRecord,
    check_crc,
    read_header,
)
from broker.wire.records.raw import RawRecord, scan_records
from broker.wire.records.record import records_data
from kraft.env import File

RECORDS_AT_A_TIME: Final = 500


def read_batches(file: File, position: int, end: int, piece_bytes: int) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Every batch from `position` to `end`: its header, a buffer that contains it, and its position in the buffer.

    Reads `piece_bytes` at a time, or one batch if that is larger. Raises CorruptBatch, OSError.
    """
    piece, first = b"", position
    while position < end:
        at = position - first
        if at + HEADER_SIZE > len(piece):
            piece, first, at = file.read(position, min(max(piece_bytes, HEADER_SIZE), end - position)), position, 0
        header = read_header(piece, at)
        size = header.size
        if position + size > end:
            raise CorruptBatch(f"The batch at {position} of {file.path} ends at {position + size}, after {end}")
        if at + size > len(piece):
            piece, first, at = file.read(position, min(max(piece_bytes, size), end - position)), position, 0
        check_crc(piece, at, header)
        yield header, piece, at
        position += size


def records_in_portions(header: BatchHeader, piece: bytes, at: int) -> tuple[bytes, Iterable[list[RawRecord]]]:
    """The decompressed records of the batch at position `at` of `piece`: their bytes, and lists of parsed records.

    Each list takes about a millisecond to parse. Raises CorruptBatch if the records cannot be decompressed. Raises
    InvalidRecord, perhaps only while the lists are iterated, if their number differs from the batch header's.
    """
    if header.count == 0:
        return b"", ()
    data, start, end = piece, at + HEADER_SIZE, at + header.length + LOG_OVERHEAD
    if header.compression is not Compression.NONE:
        data, start = bytes(records_data(piece, at, header)), 0
        end = len(data)
    if header.count > RECORDS_AT_A_TIME:
        return data, _portions(data, start, end, header.count)
    records, at = scan_records(data, start, header.count)
    if at != end:
        raise _trailing_bytes()
    return data, (records,)


def _portions(data: bytes, at: int, end: int, count: int) -> Iterator[list[RawRecord]]:
    for first in range(0, count, RECORDS_AT_A_TIME):
        records, at = scan_records(data, at, min(RECORDS_AT_A_TIME, count - first))
        yield records
    if at != end:
        raise _trailing_bytes()


def _trailing_bytes() -> InvalidRecord:
    return InvalidRecord("Incorrect declared batch size, records still remaining in file")
