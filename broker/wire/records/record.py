"""The records inside a batch v2: reading them, and building batches.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint | key length varint, key
    | value length varint, value | header count varint, for each: key length varint, key, value length varint, value

Varints are zigzag-coded; a negative length means null. `length` counts what follows it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from broker.wire.records.batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    TimestampType,
    build_batch,
)
from broker.wire.records.columns import HEADER_KEY_ERRORS, Header, read_columns
from broker.wire.records.compression import Compression, compress, decompress
from broker.wire.records.errors import CorruptBatch
from broker.wire.records.varint import varint, wrapped
from kraft import lazy_attrs

NO_OFFSET: Final = -1
NO_HEADERS: Final = varint(0)
# The length of a key or value that is None.
_NULL: Final = -1

# The largest decompressed size of a batch: as much as a client could send uncompressed in one request (Kafka's default
# for socket.request.max.bytes), so that compression never lets it send more.
DECOMPRESSED_SIZE_MAX: Final = 100 * 1024 * 1024


@lazy_attrs.define(eq=True)
class Record:
    """One record. `timestamp` is in ms since the epoch, or NO_TIMESTAMP.

    A record to be encoded may leave its offset out: it then follows the one before it.
    """

    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


def records_data(buf: Buffer, position: int, header: BatchHeader, max_size: int = DECOMPRESSED_SIZE_MAX) -> Buffer:
    """The encoded records of the batch at `position`: decompressed, or a view where nothing was compressed.

    Raises CorruptBatch when the batch does not end within `buf`, and as `decompress` does.
    """
    end = position + header.length + LOG_OVERHEAD
    if end > len(buf):
        raise CorruptBatch(f"Record batch of {header.size} bytes ends after {len(buf) - position}")
    data = memoryview(buf)[position + HEADER_SIZE : end]
    if header.compression is Compression.NONE:
        return data
    return decompress(header.compression, data, max_size)


def iter_records(
    buf: Buffer, position: int, header: BatchHeader, *, max_size: int = DECOMPRESSED_SIZE_MAX
) -> Iterator[Record]:
    """The records of the batch at `position`; what they hold is copied out of `buf`.

    Raises CorruptBatch where the batch cannot be decompressed into `max_size` bytes, InvalidRecord where it does not
    hold exactly `header.count` well-formed records. The caller checks the CRC. A timestamp that does not fit 64 bits
    wraps around, as it does for Java's consumers.
    """
    if header.count == 0:
        return
    data = bytes(records_data(buf, position, header, max_size))
    log_append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    columns = read_columns(data, header.count)
    for offset_delta, timestamp_delta, key, value, headers in zip(*columns, strict=True):
        timestamp = wrapped(header.base_timestamp + timestamp_delta) if log_append_time is None else log_append_time
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """A whole batch, sealed with its CRC.

    Offsets, where the records leave them out, count up from `base_offset`, which itself defaults to the first record's
    offset or 0. `last_offset` and `max_timestamp` default to the records' own; compaction gives them (a batch keeps its
    range when it loses records, even all of them), and so does LOG_APPEND_TIME, whose time `max_timestamp` is.
    """
    numbered = _number(records, base_offset)
    first_offset = base_offset if base_offset is not None else numbered[0].offset if numbered else 0
    base_timestamp = numbered[0].timestamp if numbered else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in numbered), default=NO_TIMESTAMP)
    if last_offset is None:
        last_offset = numbered[-1].offset if numbered else first_offset
    body = b"".join(
        encode_record(each.offset - first_offset, each.timestamp - base_timestamp, each.key, each.value, each.headers)
        for each in numbered
    )
    if compression is not Compression.NONE and numbered:
        body = compress(compression, body, compression_level)
    return build_batch(
        body,
        base_offset=first_offset,
        leader_epoch=leader_epoch,
        attributes=compression | _flags(timestamp_type, transactional, control, delete_horizon_ms is not None),
        last_offset_delta=last_offset - first_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(numbered),
    )


def _flags(timestamp_type: TimestampType, transactional: bool, control: bool, has_delete_horizon: bool) -> int:
    """The attributes of a batch besides its compression."""
    return (
        (LOG_APPEND_TIME_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
        | (DELETE_HORIZON_FLAG if has_delete_horizon else 0)
    )


def _number(records: Iterable[Record], base_offset: int | None) -> list[Record]:
    """The records with every offset filled in."""
    numbered = []
    following = base_offset or 0
    for record in records:
        if record.offset == NO_OFFSET:
            record = attrs.evolve(record, offset=following)
        numbered.append(record)
        following = record.offset + 1
    return numbered


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> bytes:
    """One record as it stands in a batch, before compression. The deltas count from the batch's base values."""
    fields = (
        b"\x00",
        varint(timestamp_delta),
        varint(offset_delta),
        varint(_NULL if key is None else len(key)),
        key or b"",
        varint(_NULL if value is None else len(value)),
        value or b"",
        encode_headers(headers) if headers else NO_HEADERS,
    )
    body = b"".join(fields)
    return varint(len(body)) + body


def encode_headers(headers: Sequence[Header]) -> bytes:
    """A record's headers as they stand in it, with their count."""
    parts = [varint(len(headers))]
    for key, value in headers:
        encoded = key.encode("utf-8", HEADER_KEY_ERRORS)
        parts += (varint(len(encoded)), encoded, varint(_NULL if value is None else len(value)), value or b"")
    return b"".join(parts)


def encode_data(
    data: Buffer,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    compression: Compression,
    *,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytes:
    """A batch of `count` records that are encoded already, but not compressed. Their offsets count up from 0."""
    return build_batch(
        data if compression is Compression.NONE else compress(compression, data, compression_level),
        base_offset=0,
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        attributes=compression | (TRANSACTIONAL_FLAG if is_transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
    )
