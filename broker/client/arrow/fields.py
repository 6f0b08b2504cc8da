"""Locates the fields of many records at once, and reads those that are numbers."""

from typing import Any, Final

import attrs

from broker.client.arrow.byte_views import ByteViews, Int64s, read_varints
from broker.client.arrow.libraries import np, pa
from broker.wire.records.errors import InvalidRecord

_OFFSET_MAX: Final = 2**31 - 1


@attrs.frozen(eq=False)
class ByteFields:
    """The start and end of one bytes field in each record. A negative size means null."""

    starts: Int64s
    ends: Int64s
    sizes: Int64s


@attrs.frozen(eq=False)
class Fields:
    """The fields of records but for their headers, which begin where the values end."""

    timestamp_deltas: Int64s
    offset_deltas: Int64s
    keys: ByteFields
    values: ByteFields


def read_fields(views: ByteViews, starts: Int64s, ends: Int64s) -> Fields:
    """The fields of the records from `starts` to `ends`. Raises InvalidRecord if a field exceeds its record."""
    sizes, at = read_varints(views, starts)
    if (sizes < 0).any() or (sizes != ends - at).any():
        raise InvalidRecord("Invalid record size: a record is not as long as it declares")
    timestamp_deltas, at = read_varints(views, at + 1)
    offset_deltas, at = read_varints(views, at)
    keys = read_byte_fields(views, at, ends)
    values = read_byte_fields(views, keys.ends, ends)
    return Fields(timestamp_deltas, offset_deltas, keys, values)


def read_byte_fields(views: ByteViews, positions: Int64s, limits: Int64s) -> ByteFields:
    """The fields of bytes whose sizes stand at `positions`.

    A limit is the end of a record, where a field cannot end: a number follows it, at least that of the headers. Raises
    InvalidRecord where a field does not end before its limit.
    """
    sizes, starts = read_varints(views, positions)
    lengths = np.maximum(sizes, 0)
    if (lengths >= limits - starts).any():
        raise InvalidRecord("Invalid record size: a field ends after its record")
    return ByteFields(starts, starts + lengths, sizes)


def binary_column(views: ByteViews, fields: ByteFields) -> Any:
    """The fields as an Arrow array of type binary, which holds a copy of the bytes.

    The buffer becomes an Arrow array without a copy, in which fields and the gaps between them take turns; the fields
    are taken out of that.
    """
    count = len(fields.starts)
    is_null = fields.sizes < 0
    if is_null.all():
        return pa.nulls(count, pa.binary())
    base = int(fields.starts[0])
    assert fields.ends[-1] - base <= _OFFSET_MAX, "the records of one call fit in an Arrow array"
    offsets = np.empty(2 * count + 1, np.int32)
    np.subtract(fields.starts, base, out=offsets[0:-1:2], casting="same_kind")
    np.subtract(fields.ends, base, out=offsets[1::2], casting="same_kind")
    offsets[-1] = offsets[-2]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(views.data).slice(base)]
    alternating = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, buffers)
    indices = np.arange(0, 2 * count, 2, dtype=np.int32)
    return alternating.take(pa.array(indices, mask=is_null if is_null.any() else None))
