"""Builds batches of dead letters: headers that name a record that has failed, and perhaps a copy of it (KIP-1191)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Final

import attrs
import trio

from broker.replication.partition import Partition
from broker.share_partitions.in_flight import DeadLetters
from broker.storage.log import LogSlice
from broker.wire.errors import KafkaError
from broker.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    InvalidRecord,
    Record,
    check_crc,
    encode_batch,
    read_header,
)
from broker.wire.records.columns import read_columns
from broker.wire.records.record import encode_headers, records_data
from broker.wire.records.varint import read_varint
from kraft import lazy_attrs

# Dead letters of one batch, which take some 3 ms to encode; and their bytes, unless a single one takes more.
_RECORDS_MAX: Final = 200
_BYTES_MAX: Final = 1 << 20
# Records that are decoded in one step, in 1 ms.
_PORTION_RECORDS: Final = 512
# A record's lengths, attributes, timestamp and offset take fewer bytes.
_RECORD_OVERHEAD_BYTES: Final = 32


@lazy_attrs.frozen
class Source:
    """The partition whose records have failed for a share group, in the leader epoch in which this broker leads it."""

    group_id: str
    partition: Partition
    leader_epoch: int


@lazy_attrs.frozen
class DeadLetterBatch:
    """`encoded` has the dead letters of the records `letters`, which are at `offsets`; without any, it is empty."""

    letters: Sequence[DeadLetters]
    offsets: Sequence[int]
    encoded: bytes

    def letters_at(self, indexes: Iterable[int]) -> list[DeadLetters]:
        """The letters of some records, by their indexes in the batch. Indexes that it does not have are left out."""
        found: list[DeadLetters] = []
        remaining = iter(self.letters)
        letters = next(remaining, None)
        for index in sorted({each for each in indexes if 0 <= each < len(self.offsets)}):
            offset = self.offsets[index]
            while letters is not None and letters.last_offset < offset:
                letters = next(remaining, None)
            assert letters is not None, "each record belongs to letters"
            found.append(letters._replace(first_offset=offset, last_offset=offset))
        return found


@lazy_attrs.frozen
class _SourceBatch:
    """The records from `first_offset` to `last_offset` of a batch. They are None if their contents are not known.

    `offsets` are those of the records, in order. Offsets of unknown contents count as those of records.
    """

    first_offset: int
    last_offset: int
    offsets: Sequence[int]
    records: dict[int, Record] | None

    def offsets_between(self, first: int, last: int) -> Sequence[int]:
        """The offsets of records from `first` to `last`. A range of letters may be a small part of a large batch."""
        return self.offsets[bisect_left(self.offsets, first) : bisect_right(self.offsets, last)]


def _source_batch(first_offset: int, last_offset: int, records: dict[int, Record] | None) -> _SourceBatch:
    offsets = range(first_offset, last_offset + 1) if records is None else sorted(records)
    return _SourceBatch(first_offset, last_offset, offsets, records)


class _OpenBatch:
    """A batch whose records are decoded in portions, from `next_offset` on. A large one takes 80 ms."""

    def __init__(self, header: BatchHeader, encoded: bytes) -> None:
        self.next_offset = header.base_offset
        self.last_offset = header.last_offset
        self._header = header
        self._portions = _portions(encoded, header.count)
        self._read = 0

    async def portion_at(self, offset: int) -> _SourceBatch:
        """The portion with this offset, which is not before `next_offset`. Raises InvalidRecord."""
        base, is_whole = self._header.base_offset, _is_whole(self._header)
        for encoded, count in self._portions:
            await trio.lowlevel.checkpoint()
            first, self._read = self.next_offset, self._read + count
            is_last = self._read == self._header.count
            if is_whole and base + self._read <= offset:
                self.next_offset = base + self._read
                continue
            deltas, _, keys, values, headers = read_columns(encoded, count)
            in_order = [first - base - 1, *deltas, self.last_offset - base + 1]
            if not all(map(lt, in_order, islice(in_order, 1, None))):
                raise InvalidRecord(f"the offsets of the batch at {base} are not in order")
            records = {
                base + delta: Record(base + delta, 0, key, value, of_record)
                for delta, key, value, of_record in zip(deltas, keys, values, headers, strict=True)
            }
            last = self.last_offset if is_last else base + deltas[-1]
            self.next_offset = last + 1
            if offset <= last:
                return _source_batch(first, last, records)
        raise InvalidRecord(f"the batch at {base} ends before {offset}")


def _is_whole(header: BatchHeader) -> bool:
    """True if there is a record for each offset of the batch."""
    return header.count == header.last_offset - header.base_offset + 1


def _portions(encoded: bytes, count: int) -> Iterator[tuple[bytes, int]]:
    """Splits the records of a batch into portions, each with its number of records. Raises InvalidRecord."""
    at = 0
    while count:
        end, portion = at, min(count, _PORTION_RECORDS)
        try:
            for _ in range(portion):
                size, end = read_varint(encoded, end)
                end += max(size, 0)
        except IndexError:
            raise InvalidRecord("the batch ends before its records") from None
        yield encoded[at:end], portion
        at, count = end, count - portion


class _SourceReader:
    """Reads one batch after the other. Its caller asks for offsets in ascending order."""

    def __init__(self, source: Source, content_bytes_max: int, *, copies: bool) -> None:
        self._source = source
        self._content_bytes_max = content_bytes_max
        self._copies = copies
        self._open: _OpenBatch | None = None

    async def batch_at(self, offset: int) -> _SourceBatch:
        """A portion of the batch with this offset, or the offsets up to the next batch. Raises KafkaError.

        The contents of a batch that is damaged, or that the disk does not return, are not known; the log is checked.
        """
        read = None if self._open is not None and offset <= self._open.last_offset else self._find(offset)
        if read is not None:
            return read
        assert self._open is not None, "a batch was opened"
        try:
            return await self._open.portion_at(offset)
        except InvalidRecord:
            return _source_batch(offset, self._open.last_offset, None)

    def _find(self, offset: int) -> _SourceBatch | None:
        """The batch with this offset as `batch_at` returns it; None if it is opened, as its records are to be read."""
        partition = self._source.partition
        log = partition.leader_log(self._source.leader_epoch)
        if offset < log.log_start_offset:
            return _source_batch(offset, log.log_start_offset - 1, None)  # deleted, perhaps by retention
        try:
            # The offset is committed. The high watermark as bound would be looked up, perhaps in unreadable sectors.
            found = log.read(offset, 1, upper_bound=log.log_end_offset, min_one_batch=True)
        except KafkaError:
            return self._unknown(offset, offset)
        if not found.size:
            return _source_batch(offset, offset, None)
        try:
            data = found.file.read(found.position, found.size)
            header = _checked_header(data, offset, partition.high_watermark, allows_gaps=log.allows_gaps)
        except OSError:
            return self._unknown(offset, self._last_offset(found, offset))
        except CorruptBatch:
            return self._unknown(offset, offset)
        if offset < header.base_offset:
            return _source_batch(offset, header.base_offset - 1, {})  # removed by compaction
        return self._opened(data, header)

    def _opened(self, data: bytes, header: BatchHeader) -> _SourceBatch | None:
        """The batch if it has no records, or if they need not or cannot be decoded; None if it is open now."""
        if header.is_control:
            return _source_batch(header.base_offset, header.last_offset, {})
        if not self._copies and _is_whole(header):
            return _source_batch(header.base_offset, header.last_offset, None)
        content_bytes_max = max(self._content_bytes_max, len(data) - HEADER_SIZE)
        try:
            self._open = _OpenBatch(header, bytes(records_data(data, 0, header, content_bytes_max)))
        except CorruptBatch:  # it cannot be decompressed in bounds
            return _source_batch(header.base_offset, header.last_offset, None)
        return None

    def _unknown(self, offset: int, last_offset: int) -> _SourceBatch:
        self._source.partition.tasks.check_log(self._source.partition, offset)
        return _source_batch(offset, last_offset, None)

    def _last_offset(self, found: LogSlice, offset: int) -> int:
        """The last offset of a batch of which not all can be read: of all its offsets at once if its header can."""
        try:
            header = read_header(found.file.read(found.position, HEADER_SIZE))
        except (OSError, CorruptBatch):
            return offset
        is_likely = header.base_offset <= offset <= header.last_offset < self._source.partition.high_watermark
        return header.last_offset if is_likely else offset


def _checked_header(data: bytes, offset: int, high_watermark: int, *, allows_gaps: bool) -> BatchHeader:
    """The header of a batch that was read for `offset`.

    Raises CorruptBatch for a damaged batch: a copy of its records would have a CRC that is right.
    """
    header = read_header(data)
    check_crc(data, 0, header)
    # The CRC does not cover the base offset.
    is_gap_right = header.base_offset <= offset or (allows_gaps and header.base_offset <= high_watermark)
    if header.last_offset < offset or not is_gap_right:
        raise CorruptBatch(f"a batch with base offset {header.base_offset} cannot be at {offset}")
    return header


async def build_batch(
    source: Source, waiting: Sequence[DeadLetters], max_message_bytes: int, *, copies: bool, wall_ms: int
) -> DeadLetterBatch:
    """The dead letters of the first records of `waiting`, as many as one batch takes. They are in the order of offsets.

    A dead letter has no copy of a record that was deleted, is damaged or unreadable, or would exceed
    `max_message_bytes`. Offsets without a record get no dead letter. Raises KafkaError.
    """
    reader = _SourceReader(source, max_message_bytes, copies=copies)
    read = _source_batch(-1, -1, {})
    done: list[DeadLetters] = []
    offsets: list[int] = []
    records: list[Record] = []
    bytes_left = min(_BYTES_MAX, max_message_bytes) - HEADER_SIZE
    for letters in waiting:
        offset = letters.first_offset
        while offset <= letters.last_offset:
            if not read.first_offset <= offset <= read.last_offset:
                read = await reader.batch_at(offset)
                await trio.lowlevel.checkpoint()
            for each in read.offsets_between(offset, letters.last_offset):
                original = read.records[each] if copies and read.records is not None else None
                record, size = _dead_letter(source, letters, each, original, max_message_bytes)
                if records and (size > bytes_left or len(records) == _RECORDS_MAX):
                    if each > letters.first_offset:
                        done.append(letters._replace(last_offset=each - 1))
                    return DeadLetterBatch(done, offsets, _encoded(records, wall_ms))
                offsets.append(each)
                records.append(record)
                bytes_left -= size
            offset = read.last_offset + 1
        done.append(letters)
    return DeadLetterBatch(done, offsets, _encoded(records, wall_ms))


def _dead_letter(
    source: Source, letters: DeadLetters, offset: int, original: Record | None, max_message_bytes: int
) -> tuple[Record, int]:
    """A dead letter, and a number of bytes that it does not exceed. Its timestamp is set later."""
    headers = tuple((name, text.encode()) for name, text in _headers(source, letters, offset))
    if original is not None:
        copy = attrs.evolve(original, headers=(*original.headers, *headers))
        size = _size(copy)
        if size + HEADER_SIZE <= max_message_bytes:
            return copy, size
    record = Record(headers=headers)
    return record, _size(record)


def _headers(source: Source, letters: DeadLetters, offset: int) -> Iterator[tuple[str, str]]:
    yield "__dlq.errors.topic", source.partition.topic
    yield "__dlq.errors.partition", str(source.partition.index)
    yield "__dlq.errors.offset", str(offset)
    yield "__dlq.errors.group", source.group_id
    yield "__dlq.errors.delivery.count", str(letters.delivery_count)
    yield "__dlq.errors.message", letters.cause


def _size(record: Record) -> int:
    content = len(record.key or b"") + len(record.value or b"")
    return _RECORD_OVERHEAD_BYTES + content + len(encode_headers(record.headers))


def _encoded(records: Sequence[Record], wall_ms: int) -> bytes:
    numbered = (attrs.evolve(each, offset=number, timestamp=wall_ms) for number, each in enumerate(records))
    return encode_batch(numbered) if records else b""
