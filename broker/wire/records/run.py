"""Runs of records of one shape, checked a column at a time.

Measurements, log lines cut to a width, benchmarks: many batches hold records of one size. Then each field's bytes stand
a fixed stride apart: a strided slice takes a field out of all records, and comparing it runs in C. That costs a fifth
of going over the records one by one, which is most of what a leader's check of a batch costs.
"""

from typing import Final

from broker.wire.records.varint import Buffer, read_varint, read_zigzag

# Shorter runs are not worth the columns.
RUN_MIN: Final = 8

_LOW_BYTES: Final = bytes(range(0x80))
_HIGH_BYTES: Final = bytes(range(0x80, 0x100))

# The bytes of the offset deltas' varints, for 8192 deltas in a row: within such a block, the third byte is the same.
_BLOCK: Final = 8192
_ONE_BYTE_DELTAS: Final = 64
_FIRST_BYTES: Final = bytes((2 * delta & 0x7F) | 0x80 for delta in range(_BLOCK))
_MIDDLE_BYTES: Final = bytes((delta >> 6) | 0x80 for delta in range(_BLOCK))
_LAST_BYTES: Final = bytes(delta >> 6 for delta in range(_BLOCK))
_THREE_BYTE_DELTAS_MAX: Final = 2**20


def follow_run(data: Buffer, start: int, stride: int, index: int, most: int) -> tuple[int, set[int]]:
    """How many records follow, in the shape of the sound one at `start`; their timestamp deltas, in zigzag form.

    That one is `stride` bytes long and has the offset delta `index`; at most `most` are looked for. They have the same
    sizes of key, value and headers, and the offset deltas `index` + 1, + 2, ...: each is as sound as the first. A count
    below RUN_MIN is given as 0, and says nothing.
    """
    sizes_at, times_at, offsets_at = _numbers_at(data, start)
    view = memoryview(data)
    count = min(most, (len(data) - start) // stride - 1, _same_offset_size(index) - 1 - index)
    for at in sizes_at:
        if count < RUN_MIN:
            return 0, set()
        column, size = _column(view, at, stride, count), bytes((data[at],))
        if column != size * count:
            count -= len(bytes(column).lstrip(size))
    offsets = _offset_columns(index + 1, count)
    if count < RUN_MIN or len(offsets) != len(offsets_at):
        return 0, set()
    for at, expected in zip(offsets_at, offsets, strict=True):
        column = _column(view, at, stride, len(expected))
        if column != expected:
            count = min(count, _agreeing(bytes(column), expected))
    if len(times_at) == 1 and _column(view, times_at[0], stride, count) == bytes((data[times_at[0]],)) * count:
        times = {data[times_at[0]]}
    else:
        count, times = _times(view, times_at, stride, count)
    return (count, times) if count >= RUN_MIN else (0, set())


def _times(view: memoryview, times_at: range, stride: int, count: int) -> tuple[int, set[int]]:
    """How many of `count` records have a timestamp delta of as many bytes, and which ones."""
    columns: list[bytes] = []
    for at in times_at:
        column = bytes(_column(view, at, stride, count))
        count = len(column) - len(column.lstrip(_LOW_BYTES if at == times_at[-1] else _HIGH_BYTES))
        columns.append(column)
    columns = [column[:count] for column in columns]
    if len(columns) == 1:
        return count, set(columns[0])
    return count, {read_zigzag(bytes(encoded), 0)[0] for encoded in set(zip(*columns, strict=True))}


def _numbers_at(data: Buffer, start: int) -> tuple[list[int], range, range]:
    """Where the bytes of a sound record's sizes and counts stand, those of its timestamp delta, of its offset delta."""
    _, attributes_at = read_varint(data, start)
    _, offset_at = read_varint(data, attributes_at + 1)
    _, at = read_varint(data, offset_at)
    times_at, offsets_at = range(attributes_at + 1, offset_at), range(offset_at, at)
    sizes_at = list(range(start, attributes_at))
    for _ in ("key", "value"):
        at = _pass_bytes(data, at, sizes_at)
    header_count, following = read_varint(data, at)
    sizes_at += range(at, following)
    at = following
    for _ in range(2 * header_count):
        at = _pass_bytes(data, at, sizes_at)
    return sizes_at, times_at, offsets_at


def _pass_bytes(data: Buffer, at: int, sizes_at: list[int]) -> int:
    size, following = read_varint(data, at)
    sizes_at += range(at, following)
    return following + max(size, 0)


def _column(view: memoryview, at: int, stride: int, count: int) -> memoryview:
    """The byte that stands where `at` is, of each of the `count` records that follow.

    A view: comparing it costs a sixth of copying it out.
    """
    return view[at + stride : at + stride * count + 1 : stride]


def _agreeing(column: bytes, expected: bytes) -> int:
    """How many bytes at the beginning of both are the same; they are equally long."""
    difference = int.from_bytes(column) ^ int.from_bytes(expected)
    return len(column) - (difference.bit_length() + 7) // 8


def _same_offset_size(index: int) -> int:
    """The end of the offset deltas whose varints are like that of `index`, up to its last byte; 0 beyond the tables."""
    if index < _ONE_BYTE_DELTAS:
        return _ONE_BYTE_DELTAS
    return (index // _BLOCK + 1) * _BLOCK if index < _THREE_BYTE_DELTAS_MAX else 0


def _offset_columns(first: int, count: int) -> list[bytes]:
    """The columns that the offset deltas `first`, `first` + 1, ... make."""
    here = slice(first % _BLOCK, first % _BLOCK + count)
    if first < _ONE_BYTE_DELTAS:
        return [bytes(range(2 * first, 2 * (first + count), 2))]
    if first < _BLOCK:
        return [_FIRST_BYTES[here], _LAST_BYTES[here]]
    return [_FIRST_BYTES[here], _MIDDLE_BYTES[here], bytes((first // _BLOCK,)) * count]
