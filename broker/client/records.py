"""Decodes a fetched partition's bytes to ConsumerRecords, and encodes records as a batch.

Both directions work on whole columns, so that most of what is done per record runs in C.
"""

import gc
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain, repeat
from typing import Final, TypeAlias, TypedDict, Unpack, cast

from broker.client.fetched_batches import check_offset_deltas, fetched_batches
from broker.client.types import ConsumerRecord, Header
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import (
    DECOMPRESSED_SIZE_MAX,
    NO_PARTITION_LEADER_EPOCH,
    BatchHeader,
    Compression,
    TimestampType,
)
from broker.wire.records.batch import Buffer
from broker.wire.records.columns import read_columns
from broker.wire.records.record import NO_HEADERS, encode_data, encode_headers, records_data
from broker.wire.records.varint import varint

# A record to encode: its timestamp in ms since the epoch, key, value and headers.
NewRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[Header]]

_TABLE_SIZE: Final = 8192

# Makes a ConsumerRecord of a tuple of its fields. The class's own constructor takes three times as long.
_AS_CONSUMER_RECORD: Final = partial(tuple.__new__, ConsumerRecord)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keeps the collector of cyclic garbage from running meanwhile.

    It would begin after every few hundred records, and look at each of them several times: nearly half of what reading
    costs. Records are not garbage yet, and no cycles are made here. When the collector is on again, it looks once at
    all that was made.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_collector_paused()
def decode_records(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int,
    aborted: Iterable[AbortedTransaction] = (),
    read_committed: bool = False,
    check_crc: bool = True,
) -> tuple[list[ConsumerRecord], int]:
    """The records in a Fetch response's partition from `from_offset` on, and the offset to fetch next.

    Control records, and under `read_committed` records of the `aborted` transactions, are left out. The offset to fetch
    next is that after the last whole batch, whether it had records or not; `from_offset` if there is no whole batch.

    Raises CorruptBatch and InvalidRecord where the first batch is damaged. Where a later one is, the records before it
    are returned, and the next fetch begins at it. Likewise, after the batch that brings the content decompressed to
    100 MiB, the rest of the buffer is left for the next fetch.
    """
    records: list[ConsumerRecord] = []
    next_offset = from_offset
    room = DECOMPRESSED_SIZE_MAX
    try:
        for position, header, is_visible in fetched_batches(
            buffer, from_offset=from_offset, aborted=aborted, read_committed=read_committed, is_crc_checked=check_crc
        ):
            if is_visible:
                data = bytes(records_data(buffer, position, header))
                records.extend(_decode_batch(header, data, topic, partition, from_offset))
                room -= len(data)
            next_offset = max(next_offset, header.next_offset)
            if room <= 0:
                break
    except WireError:
        if next_offset == from_offset:
            raise
    return records, next_offset


def _decode_batch(
    header: BatchHeader, data: bytes, topic: str, partition: int, from_offset: int
) -> Iterator[ConsumerRecord]:
    columns = read_columns(data, header.count)
    check_offset_deltas(header, min(columns.offset_deltas), max(columns.offset_deltas))
    timestamp_type = header.timestamp_type
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamps: Iterable[int] = repeat(header.max_timestamp)
    else:
        timestamps = map(header.base_timestamp.__add__, columns.timestamp_deltas)
    epoch = header.partition_leader_epoch
    fields = zip(
        repeat(topic),
        repeat(partition),
        map(header.base_offset.__add__, columns.offset_deltas),
        timestamps,
        repeat(timestamp_type),
        columns.keys,
        columns.values,
        columns.headers,
        repeat(None if epoch == NO_PARTITION_LEADER_EPOCH else epoch),
    )
    records = map(_AS_CONSUMER_RECORD, fields)
    if header.base_offset < from_offset:
        return (record for record in records if record.offset >= from_offset)
    return records


class BatchSettings(TypedDict, total=False):
    """The producer fields of a batch, and the compression level (KIP-390); None is the codec's default level.

    Without a producer id the batch is not idempotent.
    """

    compression_level: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


class RecordColumns(Sequence[NewRecord]):
    """Records that are held as columns, and encoded from these."""

    @abstractmethod
    def encode(self, *, compression: Compression, **settings: Unpack[BatchSettings]) -> bytes:
        """Encodes the columns as one batch; see `encode_records`."""


def encode_records(
    records: Sequence[NewRecord], *, compression: Compression, **settings: Unpack[BatchSettings]
) -> bytes:
    """A batch as producers send it, of at least one record: its offsets count up from 0. Timestamps fit 64 bits."""
    if isinstance(records, RecordColumns):
        return records.encode(compression=compression, **settings)
    timestamps = [record[0] for record in records]
    return encode_data(_encode_data(records), len(records), timestamps[0], max(timestamps), compression, **settings)


def _encode_data(records: Sequence[NewRecord]) -> bytes:
    """The records as they stand in a batch, before compression."""
    timestamps, keys, values, headers = zip(*records, strict=True)
    fields = zip(
        repeat(b"\x00"),
        _varints([timestamp - timestamps[0] for timestamp in timestamps]),
        _varints(range(len(records))),
        *_encode_bytes(keys),
        *_encode_bytes(values),
        map(encode_headers, headers) if any(headers) else repeat(NO_HEADERS),
    )
    bodies = list(map(b"".join, fields))
    return b"".join(chain.from_iterable(zip(_varints(list(map(len, bodies))), bodies, strict=True)))


def _encode_bytes(column: Sequence[bytes | None]) -> tuple[Iterable[bytes], Iterable[bytes]]:
    """The lengths as varints, and the bytes."""
    if None in column:
        sizes = [-1 if content is None else len(content) for content in column]
        return _varints(sizes), [content or b"" for content in column]
    contents = cast(Sequence[bytes], column)
    return _varints(list(map(len, contents))), contents


def _varints(numbers: Sequence[int]) -> Iterable[bytes]:
    if min(numbers) >= -1 and max(numbers) < _TABLE_SIZE:
        return map(_varint_table().__getitem__, numbers)
    return map(varint, numbers)


@cache
def _varint_table() -> tuple[bytes, ...]:
    """The varints of 0, 1, ..., and last that of -1, which as an index means the last. Made at its first use."""
    return (*map(varint, range(_TABLE_SIZE)), varint(-1))
