"""The full check of the records in a producer's batch, before the leader stores the batch unchanged.

Kafka's LogValidator is the model: what it rejects is rejected here, with its messages. The difference: where Kafka
rewrites a batch, such as one whose offset deltas do not count up from 0, it is rejected here.
"""

from collections.abc import Iterator
from typing import Final

from broker.wire.records.batch import NO_TIMESTAMP, BatchHeader, Buffer, TimestampType
from broker.wire.records.errors import InvalidRecord, InvalidTimestamp, RecordError
from broker.wire.records.record import DECOMPRESSED_SIZE_MAX, Record, iter_records, records_data
from broker.wire.records.run import count_uniform_records, end_of_same_varint_size
from broker.wire.records.varint import read_varint, read_zigzag

_TIMESTAMP_MAX: Final = 2**63 - 1
_TIMESTAMP_MIN: Final = -(2**63)
# How many faulty records a message spells out; `record_errors` holds them all, up to what a response should carry.
_ERRORS_SHOWN: Final = 3
_ERRORS_MAX: Final = 1000
# The first step in the search for a run. It grows while the run holds, so that the cost of searches in vain is bounded.
_RUN_MOST_AT_FIRST: Final = 512
_RUN_GROWTH: Final = 64
_SEARCH_INTERVAL_MAX: Final = 256


def check_records(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    *,
    require_keys: bool = False,
    timestamp_range: tuple[int, int] | None = None,
    max_size: int = DECOMPRESSED_SIZE_MAX,
    max_record_size: int = DECOMPRESSED_SIZE_MAX,
) -> int:
    """Check the records of a producer's batch, and return their greatest timestamp.

    `require_keys` is for compacted topics. `timestamp_range` holds the first and last ms accepted, from
    `message.timestamp.before.max.ms` and `.after.max.ms`; records without a timestamp are exempt. The header's own
    max timestamp is not held against the producer: where it differs from what is returned, Kafka corrects it, for
    which there is `restamp`. `max_record_size` is for records of compressed batches (`max.decompressed.message.bytes`):
    others are bounded by the size of their batch.

    Raises InvalidRecord when the header's counts disagree, the records are malformed or not exactly `header.count`,
    their offset deltas are not 0, 1, 2, ..., one is too large, or a key is missing; InvalidTimestamp for timestamps;
    CorruptBatch as `decompress` does. The caller checks the CRC.
    """
    if not header.count == header.last_offset_delta + 1 > 0:
        raise _wrong_counts(header)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        message = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
        raise _rejection([RecordError(0, message)], InvalidTimestamp)
    data = records_data(buf, position, header, max_size)
    try:
        if header.compression and len(data) > max_record_size:
            _check_sizes(data, header.count, max_record_size)
        delta_min, delta_max, has_null_key = _walk(data, header.count)
    except IndexError:
        raise InvalidRecord("Incorrect declared batch size, premature EOF reached") from None
    earliest = header.base_timestamp + delta_min
    latest = header.base_timestamp + delta_max
    if earliest < _TIMESTAMP_MIN or latest > _TIMESTAMP_MAX or latest - earliest > _TIMESTAMP_MAX:
        raise InvalidTimestamp(f"Timestamps from {earliest} to {latest} do not fit 64 bits")
    is_out_of_range = timestamp_range is not None and (earliest < timestamp_range[0] or latest > timestamp_range[1])
    if is_out_of_range or (require_keys and has_null_key):
        records = iter_records(buf, position, header, max_size=max_size)
        _check_each(records, require_keys, timestamp_range)
    return max(latest, NO_TIMESTAMP)


def _check_sizes(data: Buffer, count: int, max_size: int) -> None:
    """Raises InvalidRecord for a record that is too large, and IndexError where `data` ends too early."""
    at = 0
    for _ in range(count):
        size, at = read_varint(data, at)
        if size > max_size:
            raise InvalidRecord(
                f"Invalid record size: {size} exceeds the configured maximum record size of {max_size}."
            )
        if size < 0:
            raise InvalidRecord(f"Invalid record size: {size}")
        at += size


def _wrong_counts(header: BatchHeader) -> InvalidRecord:
    if header.last_offset_delta < 0:
        return InvalidRecord(f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]")
    if header.count <= 0:
        return InvalidRecord(f"Invalid reported count for record batch: {header.count}")
    return InvalidRecord(
        f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] "
        f"and count of records {header.count}"
    )


def _check_each(records: Iterator[Record], require_keys: bool, timestamp_range: tuple[int, int] | None) -> None:
    """Find the records without a key or with an unacceptable timestamp. Called only if there may be some."""
    errors: list[RecordError] = []
    raised: type[InvalidRecord] = InvalidRecord
    for index, record in enumerate(records):
        if require_keys and record.key is None:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key"))
        elif timestamp_range and not _is_acceptable(record.timestamp, timestamp_range):
            first, last = timestamp_range
            errors.append(
                RecordError(
                    index,
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{first}, {last}]",
                )
            )
            raised = InvalidTimestamp
        if len(errors) == _ERRORS_MAX:
            break
    if errors:
        raise _rejection(errors, raised)


def _is_acceptable(timestamp: int, timestamp_range: tuple[int, int]) -> bool:
    return timestamp == NO_TIMESTAMP or timestamp_range[0] <= timestamp <= timestamp_range[1]


def _rejection(errors: list[RecordError], raised: type[InvalidRecord]) -> InvalidRecord:
    if raised is InvalidTimestamp:
        return raised("One or more records have been rejected due to invalid timestamp", errors)
    shown = "; ".join(error.message for error in errors[:_ERRORS_SHOWN])
    return raised(
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
        f"first three errors at most: {shown}",
        errors,
    )


def _walk(data: Buffer, count: int) -> tuple[int, int, bool]:
    """Check the records' structure without making objects of them.

    Returns the least and the greatest timestamp delta, and whether a key is null. Raises IndexError where `data` ends
    too early.
    """
    at, delta, key_size = skip_record(data, 0, 0)
    has_null_key = key_size & 1 == 1
    if count == 1 and at == len(data):
        only_delta = (delta >> 1) ^ -(delta & 1)
        return only_delta, only_delta, has_null_key
    deltas = {delta}
    signed_deltas: set[int] = set()
    previous_delta = delta
    index = 1
    stride = at
    run_most = _RUN_MOST_AT_FIRST
    # Where records of a few sizes take turns, looking for runs costs more than it brings: after each look in vain we
    # wait for twice as many records before the next.
    run_wanted_at = search_interval = 1
    while index < count:
        start = at
        at, delta, key_size = skip_record(data, at, index)
        if delta != previous_delta:
            previous_delta = delta
            deltas.add(delta)
        if key_size & 1:
            has_null_key = True
        if at - start != stride:
            stride = at - start
        elif index >= run_wanted_at:
            # Where the offset deltas grow by a byte, so do the records.
            most = min(run_most, count - 1 - index, end_of_same_varint_size(index) - 1 - index)
            found, least, greatest = count_uniform_records(data, start, stride, index, most)
            if found:
                signed_deltas |= {least, greatest}
                index += found
                at += found * stride
                search_interval = 1
            else:
                search_interval = min(2 * search_interval, _SEARCH_INTERVAL_MAX)
            if found == run_most:
                run_most *= _RUN_GROWTH
            elif found < most:
                run_most = _RUN_MOST_AT_FIRST
            run_wanted_at = index + search_interval
        index += 1
    if at != len(data):
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
    signed_deltas |= {(delta >> 1) ^ -(delta & 1) for delta in deltas}
    return min(signed_deltas), max(signed_deltas), has_null_key


def skip_record(data: Buffer, at: int, index: int) -> tuple[int, int, int]:
    """The end of record `index`, which begins at `at`; its timestamp delta and its key's size, in zigzag form.

    The produce path's cost per record, hence the length: numbers of one byte, and of two where these are common, are
    read in place. In zigzag form they are twice the value; odd ones are negative, that is null.

    Raises InvalidRecord, and IndexError where `data` ends too early.
    """
    size = data[at]
    if size < 0x80:
        at += 1
    elif (second := data[at + 1]) < 0x80:
        size = size & 0x7F | second << 7
        at += 2
    else:
        size, at = read_zigzag(data, at)
    end = -1 if size & 1 else at + (size >> 1)
    delta = data[at + 1]
    if delta < 0x80:
        at += 2
    else:
        delta, at = read_zigzag(data, at + 1)
    offset_delta = data[at]
    if offset_delta < 0x80:
        at += 1
    elif (second := data[at + 1]) < 0x80:
        offset_delta = offset_delta & 0x7F | second << 7
        at += 2
    else:
        offset_delta, at = read_zigzag(data, at)
    if offset_delta != index << 1:
        raise InvalidRecord(f"Record {index} of the batch does not have the offset delta {index}")
    key_size = data[at]
    if key_size < 0x80:
        at += 1
    else:
        key_size, at = read_zigzag(data, at)
    if not key_size & 1:
        at += key_size >> 1
    value_size = data[at]
    if value_size < 0x80:
        at += 1
    elif (second := data[at + 1]) < 0x80:
        value_size = value_size & 0x7F | second << 7
        at += 2
    else:
        value_size, at = read_zigzag(data, at)
    if not value_size & 1:
        at += value_size >> 1
    at = _skip_headers(data, at) if data[at] else at + 1
    if at != end:
        raise InvalidRecord(f"Invalid record size: record {index} of the batch is not as long as it declares")
    return at, delta, key_size


def _skip_headers(data: Buffer, at: int) -> int:
    count, at = read_varint(data, at)
    if count < 0:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    for _ in range(count):
        key_size, at = read_varint(data, at)
        if key_size < 0:
            raise InvalidRecord(f"Invalid negative header key size {key_size}")
        value_size, at = read_varint(data, at + key_size)
        if value_size > 0:
            at += value_size
    return at
