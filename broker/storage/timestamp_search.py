"""Finds records by their timestamps, for ListOffsets.

The time index leads to the first batch that may contain the record, and only that batch is decoded. If the batch's
header names a later time than its records have, the search goes on, perhaps up to the end of the segment. So it takes
steps, between which others can run.
"""

from collections.abc import Generator, Iterator
from typing import Final, TypeAlias

from broker.storage.batch_scan import scan_headers
from broker.storage.log import Log
from broker.storage.segment import Segment
from broker.storage.segment_list import unreadable
from broker.wire.errors import WireError
from broker.wire.records import BatchHeader, CorruptBatch, iter_records
from kraft import lazy_attrs


@lazy_attrs.frozen
class TimestampAndOffset:
    """A record found by time. `leader_epoch` is the epoch of its batch, or -1."""

    timestamp: int
    offset: int
    leader_epoch: int


# Yields between steps of about 100 us, and returns what it has found.
Search: TypeAlias = Generator[None, None, TimestampAndOffset | None]

_STEP_HEADERS: Final = 64


def search_timestamp(log: Log, timestamp: int) -> Search:
    """The first record of the log with a timestamp (ms) of at least `timestamp`; None without one.

    Raises KafkaError KAFKA_STORAGE_ERROR if the files are unreadable, or were truncated between two steps.
    """
    try:
        for segment in list(log.segments):
            is_there = log.segments.index(segment) is not None  # retention may have deleted it between two steps
            if is_there and segment.largest_timestamp() >= timestamp:
                found = yield from _search_segment(segment, timestamp, log.log_start_offset)
                if found is not None:
                    return found
    except (OSError, CorruptBatch) as error:
        raise unreadable(log.partition, error) from error
    return None


def find_max_timestamp(log: Log) -> TimestampAndOffset | None:
    """The first record with the largest timestamp; None in a log without timestamps (KIP-734).

    If the leader set the timestamps, it is the first record of the batch. Raises KafkaError KAFKA_STORAGE_ERROR if the
    files are unreadable.
    """
    try:
        segment = max(log.segments, key=Segment.largest_timestamp)  # the first of equals
        if segment.max_timestamp >= 0:
            return _find_largest(segment)
    except (OSError, CorruptBatch) as error:
        raise unreadable(log.partition, error) from error
    return None


def _find_largest(segment: Segment) -> TimestampAndOffset | None:
    largest = segment.max_timestamp
    for position, header in scan_headers(segment.file, _position_for(segment, largest), segment.written):
        if header.max_timestamp == largest:
            records = _timestamps(segment, position, header)
            offset = next((offset for timestamp, offset in records if timestamp == largest), header.last_offset)
            return TimestampAndOffset(largest, offset, header.partition_leader_epoch)
    return None


def _search_segment(segment: Segment, timestamp: int, log_start_offset: int) -> Search:
    position = _position_for(segment, timestamp, log_start_offset)
    for number, (at, header) in enumerate(scan_headers(segment.file, position, segment.written), 1):
        if number % _STEP_HEADERS == 0:
            yield
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record_timestamp, offset in _timestamps(segment, at, header):
            if record_timestamp >= timestamp and offset >= log_start_offset:
                return TimestampAndOffset(record_timestamp, offset, header.partition_leader_epoch)
        yield
    return None


def _position_for(segment: Segment, timestamp: int, from_offset: int = 0) -> int:
    """A position at or before the first batch from `from_offset` on with this timestamp or more.

    Raises CorruptBatch, OSError.
    """
    segment.load_indexes()
    found = segment.find(max(segment.time_index.lookup(timestamp - 1), from_offset))
    return segment.written if found is None else found.position


def _timestamps(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of each record in a batch; after an unreadable record, those of the batch header."""
    batch = segment.file.read(position, header.size)
    try:
        for record in iter_records(batch, 0, header):
            yield record.timestamp, record.offset
    except WireError:
        yield header.max_timestamp, header.base_offset
