"""Views of bytes as numpy arrays, and reads of varints at many positions at once."""

from typing import Final

import attrs

from broker.client.arrow.libraries import np
from broker.wire.records.varint import Buffer, read_varint

# Bytes that have to follow what is read: a position that a damaged length has moved is checked after a few varints more
# have been read from there.
MARGIN: Final = 64

_WORD_SIZE: Final = 8

_U64: Final = np.uint64
_ONE: Final = _U64(1)
_CONTINUATION_BITS: Final = _U64(0x8080_8080_8080_8080)
_NUMBER_BITS: Final = _U64(0x7F7F_7F7F_7F7F_7F7F)
# Steps that close the gaps between groups of 7 bits: pairs become groups of 14 bits, then of 28, then of 56. Each step
# has the mask of the lower group, the mask of the upper group, and the shift of the upper group.
_COMPACTIONS: Final = (
    (_U64(0x007F_007F_007F_007F), _U64(0x7F00_7F00_7F00_7F00), _U64(1)),
    (_U64(0x0000_3FFF_0000_3FFF), _U64(0x3FFF_0000_3FFF_0000), _U64(2)),
    (_U64(0x0000_0000_0FFF_FFFF), _U64(0x0FFF_FFFF_0000_0000), _U64(4)),
)
# The steps that numbers of up to so many bytes need.
_STEPS: Final = (0, 0, 1, 2, 2, 3, 3, 3, 3)

Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]
Uint64s = np.ndarray[tuple[int], np.dtype[np.uint64]]
Uint8s = np.ndarray[tuple[int], np.dtype[np.uint8]]


@attrs.frozen(eq=False)
class ByteViews:
    """A buffer, its bytes, and for every position the eight bytes there as a little-endian word.

    The last MARGIN bytes of the buffer hold no data; reads may extend into them.
    """

    data: Buffer
    bytes: Uint8s
    words: Uint64s

    @classmethod
    def of(cls, data: Buffer) -> "ByteViews":
        assert len(data) >= MARGIN, "the buffer has a margin after its content"
        words = np.ndarray((len(data) - _WORD_SIZE + 1,), np.dtype("<u8"), data, 0, (1,))
        return cls(data, np.frombuffer(data, np.uint8), words)


def read_varints(views: ByteViews, positions: Int64s) -> tuple[Int64s, Int64s]:
    """The zigzag varint at each position: the numbers, and the positions after them.

    The first byte without a continuation bit ends a varint: it is found in the whole word at once, what follows is
    masked out, and the groups of 7 bits are moved together. Raises InvalidRecord where one is longer than ten bytes.
    """
    words = views.words[positions]
    ends = ~words & _CONTINUATION_BITS
    lowest = ends & (~ends + _ONE)
    mask = lowest ^ (lowest - _ONE)
    sizes = np.bitwise_count(mask) >> 3
    numbers = words & mask & _NUMBER_BITS
    longest = int(sizes.max(initial=1))
    for low, high, shift in _COMPACTIONS[: _STEPS[longest]]:
        numbers = (numbers & low) | ((numbers & high) >> shift)
    values = (numbers >> _ONE).astype(np.int64) ^ -((numbers & _ONE).astype(np.int64))
    following = positions + sizes
    if longest == _WORD_SIZE:
        for index in np.flatnonzero(ends == 0).tolist():
            values[index], following[index] = read_varint(views.data, int(positions[index]))
    return values, following
