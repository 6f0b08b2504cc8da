"""Encodes Arrow columns as the records of a batch v2, one column at a time.

A record is a few numbers, the key, a number, the value, and the headers. The numbers are written by numpy; Arrow joins
the columns.
"""

from typing import Any, Final

from broker.client.arrow.byte_views import Int64s, Uint8s, Uint64s
from broker.client.arrow.libraries import np, pa, pc

_BITS: Final = np.uint64(7)
_LOW: Final = np.uint64(0x7F)
_CONTINUED: Final = np.uint8(0x80)
_NO_HEADERS: Final = pa.scalar(b"\x00", pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())

# Upper bound for the fields of a record that `record_sizes` does not compute exactly: length, attributes, offset delta.
_LENGTH_AND_OFFSET_BYTES_MAX: Final = 5 + 1 + 5


def encode_columns(timestamps: Int64s, keys: Any, values: Any, headers: Any) -> memoryview:
    """The records of these columns as they stand in a batch, before compression.

    `timestamps` are in ms; keys and values are Arrow arrays of type binary; headers are what `encode_header_lists`
    returns, or None. The records take up to 2 GiB, and there is at least one.
    """
    count = len(timestamps)
    key_sizes, value_sizes = byte_sizes(keys), byte_sizes(values)
    timestamp_deltas = _VarintColumn(timestamps - timestamps[0])
    offset_deltas = _VarintColumn(np.arange(count))
    key_lengths = _VarintColumn(key_sizes)
    heads = 1 + timestamp_deltas.sizes + offset_deltas.sizes + key_lengths.sizes
    bodies = heads + np.maximum(key_sizes, 0) + _VarintColumn(value_sizes).sizes + np.maximum(value_sizes, 0)
    lengths = _VarintColumn(bodies + (1 if headers is None else byte_sizes(headers)))
    offsets = _offsets_of(lengths.sizes + heads)
    out = np.empty(int(offsets[-1]), np.uint8)
    at = lengths.write(out, offsets[:-1])
    out[at] = 0  # attributes
    at = timestamp_deltas.write(out, at + 1)
    at = offset_deltas.write(out, at)
    key_lengths.write(out, at)
    return _joined(
        _binary_array(offsets, out), keys, _binary_of(value_sizes), values, _NO_HEADERS if headers is None else headers
    )[1]


def record_sizes(timestamps: Int64s, keys: Any, values: Any, headers: Any) -> Int64s:
    """At most how many bytes each record takes in a batch with any of the others, before compression."""
    sizes = np.full(len(timestamps), _LENGTH_AND_OFFSET_BYTES_MAX, np.int64)
    if len(timestamps):
        widest = int(timestamps.max()) - int(timestamps.min())
        sizes += _VarintColumn(np.array([-widest], np.int64)).sizes[0]
    for column in (keys, values):
        lengths = byte_sizes(column)
        sizes += _VarintColumn(lengths).sizes + np.maximum(lengths, 0)
    return sizes + (1 if headers is None else byte_sizes(headers))


def encode_header_lists(headers: Any) -> Any:
    """Lists of headers as an Arrow array of type binary: as they stand in a record. A list that is null has none.

    Raises ValueError for a header without a key.
    """
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = headers.flatten()
    fields = dict(zip((field.name for field in items.type), items.flatten(), strict=True))
    names, contents = fields["key"], fields["value"]
    if names.null_count:
        raise ValueError("a header has no key: null is for values only")
    names, contents = names.cast(pa.binary()), contents.cast(pa.binary())
    ends, encoded = _joined(_binary_of(byte_sizes(names)), names, _binary_of(byte_sizes(contents)), contents)
    together = _binary_array(ends[_offsets_of(counts)], encoded)
    return pc.binary_join_element_wise(_binary_of(counts), together, _NOTHING)


def byte_sizes(column: Any) -> Int64s:
    """The size of each item of a binary array; -1 for null."""
    sizes: Int64s = pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _joined(*columns: Any) -> tuple[Int64s, memoryview]:
    """The boundaries of the rows of the joined columns, from 0 on, and their bytes. Null adds nothing."""
    rows = pc.binary_join_element_wise(*columns, _NOTHING, null_handling="replace", null_replacement=b"")
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = rows.buffers()[2]
    # Arrow says that its bytes are signed.
    content = memoryview(b"" if data is None else data).cast("B")
    return offsets - offsets[0], content[int(offsets[0]) : int(offsets[-1])]


class _VarintColumn:
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


def _binary_of(numbers: Int64s) -> Any:
    """The varints as an Arrow array of type binary."""
    varints = _VarintColumn(numbers)
    offsets = _offsets_of(varints.sizes)
    out = np.empty(int(offsets[-1]), np.uint8)
    varints.write(out, offsets[:-1])
    return _binary_array(offsets, out)


def _offsets_of(sizes: Int64s) -> Int64s:
    """The starts of consecutive items of these sizes, and the end of the last one."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _binary_array(offsets: Int64s, data: Any) -> Any:
    """An Arrow array of type binary over the bytes of `data`, which it does not copy."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
