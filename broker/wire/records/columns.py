"""The records of a batch v2, read into columns: one list per field.

This is the fast way to read whole batches in Python. The loop appends plain values to lists and makes no object per
record. Runs of records of one size (see `run`) are read with a few calls of `struct` instead of the loop, which takes a
third of the time.
"""

from collections.abc import Iterable
from itertools import chain, repeat
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from broker.wire.records.errors import InvalidRecord
from broker.wire.records.run import RUN_MIN, count_uniform_records
from broker.wire.records.varint import read_varint, read_zigzag

Header: TypeAlias = tuple[str, bytes | None]

# Header keys are UTF-8, but brokers do not check: this keeps other bytes intact from reading to writing.
HEADER_KEY_ERRORS: Final = "surrogateescape"

# The loop reads this many records before it looks for a run, and twice as many after each time it finds none.
_LOOP_MIN: Final = 4
_LOOP_MAX: Final = 512


class RecordColumns(NamedTuple):
    """The fields of a batch's records. Deltas count from the batch's base offset and base timestamp."""

    offset_deltas: list[int]
    timestamp_deltas: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[Header, ...]]


def read_columns(data: bytes, count: int) -> RecordColumns:
    """The `count` records in `data`. Raises InvalidRecord unless `data` holds exactly so many well-formed records."""
    columns = RecordColumns([], [], [], [], [])
    at = index = 0
    loop_size = _LOOP_MIN
    try:
        while index < count:
            loop_size = min(loop_size, count - index)
            start, at = _read_each(columns, data, at, loop_size)
            index += loop_size
            found = _read_run(columns, data, start, at, count - index)
            at += found * (at - start)
            index += found
            loop_size = 1 if found else min(max(2 * loop_size, _LOOP_MIN), _LOOP_MAX)
    except IndexError:
        raise InvalidRecord("Incorrect declared batch size, premature EOF reached") from None
    if at != len(data):
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")
    return columns


def _read_each(columns: RecordColumns, data: bytes, at: int, count: int) -> tuple[int, int]:
    """Append `count` records from `at` on to `columns`. Returns where the last one begins and ends.

    This is the cost per record of every reader, hence the length: numbers of one byte, and of two where these are
    common, are read in place. Raises InvalidRecord, and IndexError where `data` ends too early.
    """
    offset_deltas, timestamp_deltas, keys, values, headers = columns
    for _ in range(count):
        start = at
        size = data[at]
        if size < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            size = size & 0x7F | second << 7
            at += 2
        else:
            size, at = read_zigzag(data, at)
        end = at + (size >> 1)
        delta = data[at + 1]
        if delta < 0x80:
            at += 2
        else:
            delta, at = read_zigzag(data, at + 1)
        timestamp_deltas.append((delta >> 1) ^ -(delta & 1))
        delta = data[at]
        if delta < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            delta = delta & 0x7F | second << 7
            at += 2
        else:
            delta, at = read_zigzag(data, at)
        offset_deltas.append((delta >> 1) ^ -(delta & 1))
        key_size = data[at]
        if key_size < 0x80:
            at += 1
        else:
            key_size, at = read_zigzag(data, at)
        if key_size & 1:
            keys.append(None)
        else:
            key_at, at = at, at + (key_size >> 1)
            keys.append(data[key_at:at])
        value_size = data[at]
        if value_size < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            value_size = value_size & 0x7F | second << 7
            at += 2
        else:
            value_size, at = read_zigzag(data, at)
        if value_size & 1:
            values.append(None)
        else:
            value_at, at = at, at + (value_size >> 1)
            values.append(data[value_at:at])
        record_headers, at = read_headers(data, at) if data[at] else ((), at + 1)
        headers.append(record_headers)
        if at != end or size & 1:
            raise InvalidRecord(f"Invalid record size: {size >> 1} bytes declared, the fields end {at - end} bytes off")
    return start, at


def _read_run(columns: RecordColumns, data: bytes, start: int, end: int, most: int) -> int:
    """Append to `columns` the records, at most `most`, in the shape of the one at `start`. Returns their number.

    `columns` ends with the record at `start`, which ends at `end`.
    """
    offset_delta = columns.offset_deltas[-1]
    # Most ends of runs show in the next record's length: then there is nothing to look for.
    if most < RUN_MIN or offset_delta < 0 or columns.headers[-1] or data[start : start + 2] != data[end : end + 2]:
        return 0
    stride = end - start
    count, least, greatest = count_uniform_records(data, start, stride, offset_delta, most)
    if count == 0:
        return 0
    _, delta_at = read_varint(data, start)
    delta_at += 1
    _, offset_at = read_varint(data, delta_at)
    _, key_size_at = read_varint(data, offset_at)
    key_size, key_at = read_varint(data, key_size_at)
    value_size, value_at = read_varint(data, key_at + max(key_size, 0))
    run = memoryview(data)[end : end + count * stride]
    columns.offset_deltas.extend(range(offset_delta + 1, offset_delta + 1 + count))
    is_same = least == greatest
    columns.timestamp_deltas.extend(
        repeat(least, count) if is_same else _run_numbers(run, delta_at - start, offset_at - start, stride)
    )
    columns.keys.extend(_run_bytes(run, key_at - start, key_size, stride))
    columns.values.extend(_run_bytes(run, value_at - start, value_size, stride))
    columns.headers.extend(repeat((), count))
    return count


def _run_numbers(run: memoryview, at: int, end: int, stride: int) -> Iterable[int]:
    """The number whose varint is from `at` to `end` in every record of the run."""
    encoded = list(zip(*(run[byte_at::stride] for byte_at in range(at, end)), strict=True))
    numbers = {each: read_varint(bytes(each), 0)[0] for each in dict.fromkeys(encoded)}
    return map(numbers.__getitem__, encoded)


def _run_bytes(run: memoryview, at: int, size: int, stride: int) -> Iterable[bytes | None]:
    """The `size` bytes at `at` in every record of the run; None where the size is negative."""
    if size < 0:
        return repeat(None, len(run) // stride)
    return chain.from_iterable(Struct(f"{at}x{size}s{stride - at - size}x").iter_unpack(run))


def read_headers(data: bytes, at: int) -> tuple[tuple[Header, ...], int]:
    """A record's headers, and the position after them. Raises InvalidRecord, and IndexError where `data` ends early."""
    count, at = read_varint(data, at)
    if count < 0:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    headers = []
    for _ in range(count):
        key, at = _read_bytes(data, at)
        if key is None:
            raise InvalidRecord("Invalid negative header key size")
        value, at = _read_bytes(data, at)
        headers.append((key.decode("utf-8", HEADER_KEY_ERRORS), value))
    return tuple(headers), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    # A slice beyond the end comes out short, and the record's end tells on it.
    return data[at : at + size], at + size
