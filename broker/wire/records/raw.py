"""Raw records of a batch, for compaction, which copies or drops them without decoding their contents.

A batch that loses records keeps its base offset and its base timestamp, so that those that stay can be copied byte for
byte. Only a delete horizon, which takes the base timestamp's place (KIP-534), requires that all records' timestamps are
rewritten.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from broker.wire.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    BatchHeader,
    TimestampType,
    build_batch,
)
from broker.wire.records.compression import Compression, compress
from broker.wire.records.errors import InvalidRecord
from broker.wire.records.varint import read_varint, read_zigzag, varint, wrapped

# Where a record begins, where its offset delta stands, and where it ends; its timestamp delta and its offset delta; its
# key, and whether it has a value, which a tombstone has not. A plain tuple: there is one for every record.
RawRecord: TypeAlias = tuple[int, int, int, int, int, bytes | None, bool]

_LONG_MAX: Final = 2**63 - 1


def scan_records(data: bytes, at: int, count: int) -> tuple[list[RawRecord], int]:
    """The next `count` records in `data` from `at` on, and the position after them. Raises InvalidRecord."""
    records: list[RawRecord] = []
    try:
        for _ in range(count):
            record = _scan_record(data, at)
            records.append(record)
            at = record[2]
    except IndexError:
        raise InvalidRecord("Incorrect declared batch size, premature EOF reached") from None
    if at > len(data):
        raise InvalidRecord("Incorrect declared batch size, premature EOF reached")
    return records, at


def _scan_record(data: bytes, start: int) -> RawRecord:
    """Runs once per record in compaction, so numbers of one byte are read in place. In zigzag form odd ones are
    negative.
    """
    size = data[start]
    at = start + 1
    if size >= 0x80:
        size, at = read_zigzag(data, start)
    end = at + (size >> 1)
    delta = data[at + 1]
    offset_at = at + 2
    if delta >= 0x80:
        delta, offset_at = read_zigzag(data, at + 1)
    offset_delta = data[offset_at]
    at = offset_at + 1
    if offset_delta >= 0x80:
        offset_delta, at = read_zigzag(data, offset_at)
    key: bytes | None = None
    size = data[at]
    if size < 0x80:
        at += 1
    else:
        size, at = read_zigzag(data, at)
    if not size & 1:
        key_at = at
        at += size >> 1
        key = data[key_at:at]
    size = data[at]
    if at >= end:
        raise InvalidRecord("Invalid record size: the fields end after the record")
    return (
        start,
        offset_at,
        end,
        (delta >> 1) ^ -(delta & 1),
        (offset_delta >> 1) ^ -(offset_delta & 1),
        key,
        not size & 1,
    )


def batch_of_records(
    header: BatchHeader, data: bytes, kept: Sequence[RawRecord], delete_horizon_ms: int | None
) -> bytes:
    """The batch of `header` with no other records than `kept`, which stand in `data`.

    Offsets, sequence numbers and producer stay, and so does the compression. `delete_horizon_ms` is set unless None.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is None:
        body = b"".join([data[record[0] : record[2]] for record in kept])
    else:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = min(delete_horizon_ms, _LONG_MAX)
        moved_by = header.base_timestamp - base_timestamp
        body = b"".join([_restamped(data, record, wrapped(record[3] + moved_by)) for record in kept])
    if header.compression is not Compression.NONE:
        body = compress(header.compression, body)
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = max(wrapped(header.base_timestamp + record[3]) for record in kept)
    return _pack(header, attributes, base_timestamp, max_timestamp, len(kept), body)


def empty_batch(header: BatchHeader) -> bytes:
    """The batch of `header` without its records: what is left are its offsets, and its producer's sequence numbers."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return _pack(header, attributes, header.max_timestamp, header.max_timestamp, 0, b"")


def _pack(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, body: bytes
) -> bytes:
    return build_batch(
        body,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=count,
    )


def _restamped(data: bytes, record: RawRecord, timestamp_delta: int) -> bytes:
    start, offset_at, end, *_ = record
    _, attributes_at = read_varint(data, start)
    delta = varint(timestamp_delta)
    size = varint(1 + len(delta) + end - offset_at)
    return b"".join((size, data[attributes_at : attributes_at + 1], delta, data[offset_at:end]))
