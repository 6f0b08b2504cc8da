"""A partial check of a producer's records before a batch is stored unchanged, at a fraction of a full check's cost.

A broker that stores records unchecked can store some that no consumer can read; the consumer then stays at that offset
for ever. `check_records` checks everything, which costs about 0.5 us a record in Python. The partial check costs 0.15
us a record, and almost nothing if all records have one size:

A single record is checked completely. In a batch of several records, the first two and the last are checked completely,
since a client that builds records wrongly does so from the first record on. The lengths of the other records are read,
which proves that their number is right and that the last record ends where the batch does.

Compressed records are not decompressed. The data has to begin as its codec's framing does, and the number of records
must fit into the decompressed size that the data claims.

The header's max timestamp decides on lookups by time and on retention, and some clients leave it unset. It must not be
before those of the records that are checked completely, and has to be one of them in a batch of three records or fewer.
For compressed records it must be set, and not before the base timestamp. A base timestamp before 1970 is unusual, and
allows sums that do not fit 64 bits.

A batch that fails this check may still be valid: the caller then runs `check_records`.
"""

from ctypes import addressof, c_char
from struct import Struct
from typing import Final

from broker.wire.records.batch import COMPRESSION_MASK, HEADER_SIZE, NO_TIMESTAMP, BatchHeader
from broker.wire.records.check import skip_record
from broker.wire.records.compression import claimed_size
from broker.wire.records.errors import CorruptBatch, InvalidRecord
from broker.wire.records.run import end_of_same_varint_size
from broker.wire.records.varint import Buffer, read_varint, read_zigzag

# A record's length, attributes, and five numbers, each of one byte at least.
RECORD_SIZE_MIN: Final = 7

_HEAD: Final = Struct(">Q")
_UNPACK_HEAD: Final = _HEAD.unpack_from
_HEAD_END: Final = HEADER_SIZE + _HEAD.size
# A producer's records are of few sizes, or of so many that remembering them does not help.
_HEADS_MAX: Final = 64
_NULL: Final = 1  # -1 in zigzag form

# The last record's index in the largest batch of which all records are checked completely.
_CHECKED_LAST: Final = 2

# Runs shorter than this are not worth looking for.
_RUN_MIN: Final = 16
# The first step in the search for a run. It grows while the run holds, so that the cost of searches in vain is bounded.
_RUN_MOST_AT_FIRST: Final = 512
_RUN_GROWTH: Final = 64
_SEARCH_INTERVAL_MAX: Final = 256


class PartialCheck:
    """Checks batches partially. Remembers the first bytes of valid single records, since most equal an earlier one."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[tuple[int], int] = {}  # first bytes of a valid plain record -> the batch's size

    def accepts(self, batch: memoryview, header: BatchHeader) -> bool:
        """True if the batch's records pass the partial check that the module's docstring describes.

        `batch` is the whole batch; its header has been checked, and `header.count` is positive.
        """
        if header.attributes & COMPRESSION_MASK:
            return NO_TIMESTAMP <= header.base_timestamp <= header.max_timestamp > 0 and _looks_compressed(
                batch, header
            )
        size = len(batch)
        count = header.count
        if count > 1:
            return count * RECORD_SIZE_MIN <= size - HEADER_SIZE and _looks_like_records(batch, header)
        if size < _HEAD_END or header.max_timestamp != header.base_timestamp:
            return _is_record(batch, header)
        head = _UNPACK_HEAD(batch, HEADER_SIZE)
        if self._heads.get(head) == size and not batch[-1]:
            return True
        if not _is_plain_record(batch):
            return _is_record(batch, header)
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        self._heads[head] = size
        return True


def _is_record(batch: memoryview, header: BatchHeader) -> bool:
    """True if the batch holds exactly one record, which is valid and has the max timestamp."""
    try:
        end, delta, _ = skip_record(batch, HEADER_SIZE, 0)
    except (IndexError, InvalidRecord):
        return False
    # A timestamp before the base timestamp is rare, and left to the full check.
    return end == len(batch) and delta == 2 * (header.max_timestamp - header.base_timestamp)


def _is_plain_record(batch: memoryview) -> bool:
    """True for exactly one valid record without key and headers, and with the base timestamp.

    Its first eight bytes contain all its sizes.
    """
    size = len(batch)
    length, first, second, third, fourth, fifth, sixth, seventh = batch[HEADER_SIZE:_HEAD_END]
    at = HEADER_SIZE + 6
    if length >= 0x80:  # then all that follows stands a byte further
        if first >= 0x80:
            return False
        length = length & 0x7F | first << 7
        at += 1
        second, third, fourth, fifth, sixth = third, fourth, fifth, sixth, seventh
    is_plain = second == third == 0 and fourth == _NULL and (length >> 1) == size - at + 5
    if fifth >= 0x80:
        if sixth >= 0x80:
            return False
        fifth = fifth & 0x7F | sixth << 7
        at += 1
    return is_plain and not (length | fifth) & 1 and at + (fifth >> 1) + 1 == size and batch[-1] == 0


def _looks_like_records(batch: memoryview, header: BatchHeader) -> bool:
    """True if the records fill the batch exactly, and the first two and the last are valid and not after its max
    timestamp.
    """
    count = header.count
    data, begin = _with_fast_slices(batch) if count > _RUN_MIN else (batch, 0)
    end = begin + len(batch)
    base_timestamp = header.base_timestamp
    latest = 2 * (header.max_timestamp - base_timestamp)
    if latest < 0 or base_timestamp < NO_TIMESTAMP:
        return False
    try:
        return _follow_lengths(data, begin + HEADER_SIZE, end, count - 1, latest) == end
    except (IndexError, InvalidRecord):
        return False


def _with_fast_slices(batch: memoryview) -> tuple[bytes | bytearray, int]:
    """Returns an object that holds the batch's bytes, and their position in it.

    To slice bytes or a bytearray with a step costs a third of what it costs for a memoryview, and to index them half.
    So a batch in a receive buffer is looked at in the bytearray that it is a view of. To find its position there takes
    a microsecond, which batches of a few records do not win back.
    """
    whole = batch.obj
    if isinstance(whole, bytearray) and not batch.readonly:
        return whole, addressof(c_char.from_buffer(batch)) - addressof(c_char.from_buffer(whole))
    return bytes(batch), 0


def _follow_lengths(data: Buffer, at: int, end: int, last: int, latest: int) -> int:
    """Returns the end of record `last`, read by the lengths of those before it, from record 0 at `at` on.

    `end` is the end of the batch; a record's end may be beyond it. `latest` is the greatest timestamp delta allowed, in
    zigzag form and not negative. Raises IndexError, InvalidRecord.
    """
    at, first, _ = skip_record(data, at, 0)
    start = at
    at, second, _ = skip_record(data, at, 1)
    third = second
    if last > 1:
        at, third = _follow_from(data, at, end, at - start, last)
    if (
        (first > latest and not first & 1)
        or (second > latest and not second & 1)
        or (third > latest and not third & 1)
        or (last <= _CHECKED_LAST and latest not in (first, second, third))
    ):
        raise InvalidRecord("The batch's max timestamp is not that of its records")
    return at


def _follow_from(data: Buffer, at: int, end: int, stride: int, last: int) -> tuple[int, int]:
    """The end of record `last` and its timestamp delta, in zigzag form.

    The third record begins at `at`; the second has `stride` bytes.
    """
    index = run_wanted_at = 2
    lengths, search_interval, run_most = 0, 1, _RUN_MOST_AT_FIRST
    while index < last:
        start = at
        length = data[at]
        if length < 0x80:
            at += 1 + (length >> 1)
        elif (high := data[at + 1]) < 0x80:
            at += 2 + ((length & 0x7F | high << 7) >> 1)
        else:
            length, at = read_zigzag(data, at)
            at += length >> 1
        lengths |= length
        index += 1
        if at - start != stride:
            stride = at - start
        elif index >= run_wanted_at and last - index > _RUN_MIN:
            # Where the offset deltas grow by a byte, so do the records.
            most = min(run_most, last - index, max(end_of_same_varint_size(index) - index, _RUN_MIN))
            found = _same_lengths(data, start, end, stride, most)
            index += found
            at += found * stride
            run_most = _RUN_GROWTH * run_most if found else _RUN_MOST_AT_FIRST
            search_interval = 1 if found else min(2 * search_interval, _SEARCH_INTERVAL_MAX)
            run_wanted_at = index + search_interval
    if lengths & 1:
        raise InvalidRecord("A record has a negative length")
    at, delta, _ = skip_record(data, at, last)
    return at, delta


def _same_lengths(data: Buffer, start: int, end: int, stride: int, most: int) -> int:
    """Returns how many records after the one at `start` have its size of `stride` bytes, at most `most`.

    A strided slice takes the same byte of all of their lengths, and is compared in C. The time goes into fetching each
    record's first bytes from memory.
    """
    count = min(most, (end - start) // stride - 1)
    if count <= 0:
        return 0
    _, lengths_end = read_varint(data, start)
    for at in range(start, lengths_end):
        expected = bytes((data[at],))
        column = data[at + stride : at + stride * count + 1 : stride]
        if column != expected * count:
            count -= len(bytes(column).lstrip(expected))
    return count


def _looks_compressed(batch: memoryview, header: BatchHeader) -> bool:
    """True if the compressed data may hold as many records as the header claims.

    More records than bytes are possible, but no client writes so many records with so little content. The data's own
    claim of what it holds, where there is one, bounds them too; it may be a lie.
    """
    data = batch[HEADER_SIZE:]
    try:
        content_size = claimed_size(header.compression, data)
    except CorruptBatch:
        return False
    return header.count <= len(data) and (content_size is None or header.count * RECORD_SIZE_MIN <= content_size)
