"""Finds where the records of a batch begin. Each record starts with its length, so only this step is sequential."""

from typing import Final

from broker.client.arrow.byte_views import ByteViews, Int64s
from broker.client.arrow.libraries import np
from broker.wire.records.errors import InvalidRecord
from broker.wire.records.varint import Buffer, read_varint

# Records that the loop passes before it looks again for records of one size.
_LOOP_SIZE: Final = 512
# Shorter runs are not worth the arrays.
_RUN_MIN: Final = 24


def record_starts(views: ByteViews, start: int, end: int, count: int) -> Int64s:
    """The positions of `count` records from `start` on, and last the position after them, which is `end`.

    The lengths are not checked against the records' contents. Raises InvalidRecord unless the last record ends at
    `end`.
    """
    parts: list[Int64s] = []
    at = start
    left = count
    try:
        while left:
            found = _follow_run(views, at, end, left)
            if found is None:
                looped = _follow_lengths(views.data, at, end, min(left, _LOOP_SIZE))
                found = np.array(looped, dtype=np.int64)
            parts.append(found[:-1])
            at = int(found[-1])
            left -= len(found) - 1
    except IndexError:
        raise InvalidRecord("Incorrect declared batch size, premature EOF reached") from None
    if at != end:
        raise InvalidRecord("Incorrect declared batch size, records do not end where their batch does")
    parts.append(np.array([end], dtype=np.int64))
    return np.concatenate(parts)


def _follow_run(views: ByteViews, at: int, end: int, most: int) -> Int64s | None:
    """The positions of the records from `at` on that are as long as the first, and the position after the last.

    Returns None for a short run. If the bytes of the length repeat one stride further, a record of the same length
    begins there, so every position of the run is certain.
    """
    length, length_end = read_varint(views.data, at)
    stride = length_end - at + length
    count = min(most, (end - at) // stride) if length > 0 else 0
    if count < _RUN_MIN:
        return None
    for byte_at in range(at, length_end):
        column = views.bytes[byte_at : byte_at + stride * (count - 1) + 1 : stride]
        is_same = column == column[0]
        if not is_same.all():
            count = int(is_same.argmin())
        if count < _RUN_MIN:
            return None
    return np.arange(at, at + stride * count + 1, stride, dtype=np.int64)


def _follow_lengths(data: Buffer, at: int, end: int, count: int) -> list[int]:
    """The positions of `count` records of any length, and the end of the last. Raises IndexError beyond `end`."""
    positions = [at]
    append = positions.append
    for _ in range(count):
        length = data[at]
        if length < 0x80:
            at += 1 + (length >> 1)
        elif (second := data[at + 1]) < 0x80:
            at += 2 + ((length & 0x7F | second << 7) >> 1)
        else:
            length, at = read_varint(data, at)
            at += max(length, 0)
        append(at)
    if at > end:
        raise IndexError
    return positions
