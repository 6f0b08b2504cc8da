"""Finding records by their timestamps, for ListOffsets.

The time index leads to the first batch that may qualify, and only that batch is decoded.
"""

from collections.abc import Iterable, Iterator

import attrs

from broker.storage.batch_scan import scan_headers
from broker.storage.segment import Segment
from broker.wire.errors import WireError
from broker.wire.records import BatchHeader, TimestampType, iter_records


@attrs.frozen
class TimestampAndOffset:
    """A record found by time. `leader_epoch` is its batch's, or -1."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(segments: Iterable[Segment], timestamp: int, *, log_start_offset: int) -> TimestampAndOffset | None:
    """The first record from `log_start_offset` on with a timestamp of at least `timestamp` (ms); None without one.

    Raises CorruptBatch, OSError.
    """
    for segment in segments:
        if segment.largest_timestamp() >= timestamp:
            found = _find_in_segment(segment, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Iterable[Segment]) -> TimestampAndOffset | None:
    """The first record with the largest timestamp of all; None in a log without timestamps (KIP-734).

    Where the leader set the timestamps, it is the last record of the first such batch, as Kafka has it.
    Raises CorruptBatch, OSError.
    """
    segment = max(segments, key=Segment.largest_timestamp)  # the first of equals
    largest = segment.max_timestamp
    if largest >= 0:
        for position, header in scan_headers(segment.file, segment.position_for_timestamp(largest), segment.written):
            if header.max_timestamp == largest:
                offset = header.last_offset
                if header.timestamp_type is TimestampType.CREATE_TIME:
                    records = _timestamps(segment, position, header)
                    offset = next((offset for timestamp, offset in records if timestamp == largest), offset)
                return TimestampAndOffset(largest, offset, header.partition_leader_epoch)
    return None


def _find_in_segment(segment: Segment, timestamp: int, log_start_offset: int) -> TimestampAndOffset | None:
    position = segment.position_for_timestamp(timestamp)
    for at, header in scan_headers(segment.file, position, segment.written):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record_timestamp, offset in _timestamps(segment, at, header):
            if record_timestamp >= timestamp and offset >= log_start_offset:
                return TimestampAndOffset(record_timestamp, offset, header.partition_leader_epoch)
    return None


def _timestamps(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of the records in a batch, as far as they can be read; then what its header says."""
    batch = segment.file.read(position, header.size)
    try:
        for record in iter_records(batch, 0, header):
            yield record.timestamp, record.offset
    except WireError:
        yield header.max_timestamp, header.base_offset
