"""Reading what is to be cleaned: whole batches, intact, and their records some at a time."""

from collections.abc import Iterator
from typing import Final

from broker.wire.records import (
    HEADER_SIZE,
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
    """Every batch from `position` to `end`: its header, and the bytes in which it stands at a position.

    Reads `piece_bytes` at a time, or one batch. Raises CorruptBatch, OSError.
    """
    piece, first = b"", position
    while position < end:
        at = position - first
        if at + HEADER_SIZE > len(piece):
            piece, first, at = file.read(position, min(max(piece_bytes, HEADER_SIZE), end - position)), position, 0
        header = read_header(piece, at)
        size = header.size
        if position + size > end:
            raise CorruptBatch(f"The batch at {position} of {file.path} ends at {position + size}, behind {end}")
        if at + size > len(piece):
            piece, first, at = file.read(position, min(max(piece_bytes, size), end - position)), position, 0
        check_crc(piece, at, header)
        yield header, piece, at
        position += size


class Portions:
    """The records of a batch, as many at a time as are worth a millisecond. They stand in `data`."""

    def __init__(self, header: BatchHeader, piece: bytes, at: int) -> None:
        """Raises CorruptBatch where the batch in `piece` at `at` cannot be decompressed."""
        self._count = header.count
        if header.count == 0:
            self.data, self._at, self._end = b"", 0, 0
        elif header.compression is Compression.NONE:
            self.data, self._at, self._end = piece, at + HEADER_SIZE, at + header.size
        else:
            self.data, self._at = bytes(records_data(piece, at, header)), 0
            self._end = len(self.data)

    def __iter__(self) -> Iterator[list[RawRecord]]:
        """Raises InvalidRecord where there are not exactly as many records as the batch says."""
        at = self._at
        for first in range(0, self._count, RECORDS_AT_A_TIME):
            records, at = scan_records(self.data, at, min(RECORDS_AT_A_TIME, self._count - first))
            yield records
        if at != self._end:
            raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
