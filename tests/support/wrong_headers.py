"""Producers' batches with wrong header fields and a correct checksum, and checks of a log that has taken some of them.

A broker may refuse such a batch. One that it has taken is used consistently: lookups by time, retention, compaction,
recovery and replication agree with what the stored headers say.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.retention import delete_old_segments
from broker.storage.timestamp_search import TimestampAndOffset, find_max_timestamp
from broker.wire.errors import ErrorCode, WireError
from broker.wire.records import BatchHeader, Compression, Record, encode_batch, iter_headers, iter_records
from broker.wire.records.batch import HEADER, PRODUCER_ATTRIBUTES, seal
from tests.support.compacted_logs import clean, latest
from tests.support.logs import DAY_MS, HOUR_MS, find_timestamp, open_log, read_all

_LONG_MAX: Final = 2**63 - 1
_LONG_MIN: Final = -(2**63)
_INT_MAX: Final = 2**31 - 1

# The header's fields in their order.
FIELDS: Final = tuple(field.name for field in attrs.fields(BatchHeader))

# Kafka's codes for a batch with a wrong header.
REFUSALS: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def wrong_values(now_ms: int) -> Mapping[str, Sequence[int]]:
    """Values of each field that are wrong for a batch of three records of `now_ms` without a producer."""
    times = (-1, 0, now_ms - DAY_MS, now_ms + 60_000, now_ms + 3 * HOUR_MS, _LONG_MAX, _LONG_MIN)
    return {
        "base_offset": (1, -1, _LONG_MAX),
        "partition_leader_epoch": (0, 99, _INT_MAX),
        "magic": (0, 1, 3, -1),
        "attributes": (0x07, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1000, -0x8000),
        "last_offset_delta": (-1, 0, 7, _INT_MAX),
        "base_timestamp": times,
        "max_timestamp": times,
        "producer_id": (0, 7, -2, _LONG_MAX),
        "producer_epoch": (0, 5, -2),
        "base_sequence": (0, 5, -2, _INT_MAX),
        "count": (0, -1, 1, 2, 7, _INT_MAX),
    }


def records_at(*timestamps: int) -> list[Record]:
    """Records of these times, with few keys, so that compaction removes some."""
    return [
        Record(timestamp=timestamp, key=b"%d" % (at % 2), value=b"value %d" % at)
        for at, timestamp in enumerate(timestamps)
    ]


def wrong_batch(records: Sequence[Record], compression: Compression, fields: Mapping[str, int]) -> bytes:
    """A batch with other header fields, the attributes in addition to the compression, and the matching checksum."""
    batch = bytearray(encode_batch(records, compression=compression))
    values = dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True)) | fields
    if "attributes" in fields:
        values["attributes"] = fields["attributes"] | compression
    HEADER.pack_into(batch, 0, *values.values())
    seal(batch, 0, len(batch))
    return bytes(batch)


def check_use(log: Log, directory: Path, now_ms: int) -> None:
    """Check the stored headers, and use the log, of one segment; logs that are made from it are below `directory`."""
    stored = b"".join(segment.file.read(0, segment.written) for segment in log.segments)
    batches = [(header, _timestamps(stored, at, header)) for at, header in iter_headers(stored)]
    assert sum(header.size for header, _ in batches) == len(stored)
    for header, timestamps in batches:
        _check_header(header, timestamps, now_ms)
    _check_lookups(log, batches)
    _check_lookups(open_log(Path(log.directory), log.config), batches)  # recovers it, as after a crash
    follower = open_log(directory / "follower-0", log.config)
    if stored:
        follower.append_as_follower(memoryview(stored), log.epochs.latest_epoch, now_ms)
    _check_lookups(follower, batches)
    _check_retention(follower, batches)


async def check_compaction(log: Log, directory: Path, now_ms: int) -> None:
    """Compact a copy of the log, whose readable batches keep the last record of each key."""
    stored = b"".join(segment.file.read(0, segment.written) for segment in log.segments)
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=max(len(stored), 1) * 2)
    copy = open_log(directory / "compacted-0", config)
    if not stored:
        return
    copy.append_as_follower(memoryview(stored), log.epochs.latest_epoch, now_ms)
    copy.roll()
    try:
        before = latest(read_all(copy))
    except WireError:
        before = {}  # a compressed batch that is not what its header says
    try:
        await clean(copy, now_ms=now_ms)
    except WireError:
        assert not before, "only a log with an unreadable batch is not compacted"
    else:
        assert latest(read_all(copy)) == before


def _timestamps(stored: bytes, at: int, header: BatchHeader) -> list[tuple[int, int]]:
    """Time and offset of each record; for an unreadable batch what its header says."""
    try:
        return [(record.timestamp, record.offset) for record in iter_records(stored, at, header)]
    except WireError:
        assert header.compression is not Compression.NONE, "uncompressed records are as many as the header says"
        return [(header.max_timestamp, header.base_offset)]


def _check_header(header: BatchHeader, timestamps: Sequence[tuple[int, int]], now_ms: int) -> None:
    assert header.attributes & ~PRODUCER_ATTRIBUTES == 0
    assert header.max_timestamp <= now_ms + HOUR_MS + 60_000
    assert header.max_timestamp > 0 or max(timestamps)[0] <= 0
    if header.compression is Compression.NONE:
        checked = [timestamp for timestamp, _ in (*timestamps[:2], timestamps[-1])]
        assert header.max_timestamp >= max(checked)
        if len(timestamps) <= 3:
            assert header.max_timestamp == max(*checked, -1) or header.max_timestamp == max(checked)


def _check_lookups(log: Log, batches: Sequence[tuple[BatchHeader, Sequence[tuple[int, int]]]]) -> None:
    for timestamp in sorted(set(_times(batches))):
        found = find_timestamp(log, timestamp)
        expected = [
            TimestampAndOffset(time, offset, header.partition_leader_epoch)
            for header, timestamps in batches
            for time, offset in timestamps
            if header.max_timestamp >= timestamp and time >= timestamp
        ]
        assert found == (expected[0] if expected else None), f"lookup of {timestamp}"
    largest = max((header.max_timestamp for header, _ in batches), default=-1)
    latest_found = find_max_timestamp(log)
    if largest < 0:
        assert latest_found is None
        return
    header, timestamps = next(each for each in batches if each[0].max_timestamp == largest)
    offset = next((offset for time, offset in timestamps if time == largest), header.last_offset)
    assert latest_found == TimestampAndOffset(largest, offset, header.partition_leader_epoch)


def _times(batches: Sequence[tuple[BatchHeader, Sequence[tuple[int, int]]]]) -> Iterator[int]:
    yield from (0, 1, _LONG_MAX)
    for header, timestamps in batches:
        for time in (header.max_timestamp, *(time for time, _ in timestamps)):
            yield from (each for each in (time - 1, time, time + 1) if 0 <= each <= _LONG_MAX)


def _check_retention(log: Log, batches: Sequence[tuple[BatchHeader, Sequence[tuple[int, int]]]]) -> None:
    """The whole log goes once its latest header is older than retention.ms, and not before."""
    largest = max((header.max_timestamp for header, _ in batches), default=-1)
    if largest < 0:
        return
    end = log.log_end_offset
    log.configure(attrs.evolve(log.config, retention_ms=DAY_MS))
    delete_old_segments(log, largest + DAY_MS, end)
    assert log.log_start_offset == 0
    delete_old_segments(log, largest + DAY_MS + 1, end)
    assert log.log_start_offset == end
