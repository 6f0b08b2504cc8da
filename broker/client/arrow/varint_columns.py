"""Numbers as zigzag varints, a whole column at once."""

from typing import Any, Final

from broker.client.arrow.byte_views import Int64s, Uint8s, Uint64s
from broker.client.arrow.libraries import np, pa

_BITS: Final = np.uint64(7)
_LOW: Final = np.uint64(0x7F)
_CONTINUED: Final = np.uint8(0x80)


class VarintColumn:
    """The varints of a column of numbers: how long each is, and a way to write them."""

    def __init__(self, numbers: Int64s) -> None:
        self._zigzags: Uint64s = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        self.sizes: Int64s = np.ones(len(numbers), np.int64)
        rest = int(self._zigzags.max(initial=0)) >> 7
        bound = np.uint64(0x80)
        while rest:
            self.sizes += self._zigzags >= bound
            rest >>= 7
            bound = np.uint64(int(bound) << 7)

    def write(self, out: Uint8s, positions: Int64s) -> Int64s:
        """Writes each varint at its position. Returns the positions after them."""
        zigzags = self._zigzags
        for index in range(int(self.sizes.max(initial=0))):
            content = (zigzags & _LOW).astype(np.uint8)
            content[self.sizes > index + 1] |= _CONTINUED
            is_there = self.sizes > index
            if is_there.all():
                out[positions + index] = content
            else:
                out[positions[is_there] + index] = content[is_there]
            zigzags = zigzags >> _BITS
        return positions + self.sizes


def binary_of(numbers: Int64s) -> Any:
    """The varints as an Arrow array of type binary."""
    varints = VarintColumn(numbers)
    offsets = offsets_of(varints.sizes)
    out = np.empty(int(offsets[-1]), np.uint8)
    varints.write(out, offsets[:-1])
    return binary_array(offsets, out)


def offsets_of(sizes: Int64s) -> Int64s:
    """The starts of consecutive items of these sizes, and the end of the last one."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def binary_array(offsets: Int64s, data: Any) -> Any:
    """An Arrow array of type binary over the bytes of `data`, which it does not copy."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
