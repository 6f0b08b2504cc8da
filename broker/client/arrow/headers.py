"""Reads the headers of many records at once: the first header of every record, then the second, and so on."""

from typing import Any, Final

import attrs

from broker.client.arrow.byte_views import ByteViews, Int64s, read_varints
from broker.client.arrow.fields import ByteFields, binary_column, read_byte_fields
from broker.client.arrow.libraries import np, pa, pc
from broker.client.arrow.schema import HEADER_TYPE, HEADERS_TYPE
from broker.wire.records.errors import InvalidRecord
from broker.wire.records.varint import Buffer, read_varint

# Where fewer records have one more header, the rest is read one by one: one record with very many headers would
# otherwise cost a round of array operations for each.
_TOGETHER_MIN: Final = 16

# A column per header, with the index of its record, where its key starts and ends, where its value starts and ends, and
# the value's size, which is negative for null.
_HeaderTable = np.ndarray[tuple[int, int], np.dtype[np.int64]]
_NO_HEADERS: Final[_HeaderTable] = np.empty((6, 0), np.int64)


@attrs.frozen(eq=False)
class Headers:
    """How many headers each record has, and all of them in order."""

    counts: Int64s
    table: _HeaderTable


def read_headers(views: ByteViews, positions: Int64s, ends: Int64s) -> Headers:
    """The headers of the records that end at `ends`; their counts stand at `positions`.

    Raises InvalidRecord where a record's headers do not end where it does.
    """
    if not views.bytes[positions].any() and (positions + 1 == ends).all():
        return Headers(np.zeros(len(positions), np.int64), _NO_HEADERS)
    counts, at = read_varints(views, positions)
    if (counts < 0).any():
        raise InvalidRecord("Found invalid number of record headers")
    left = counts.copy()
    rows = np.flatnonzero(left)
    tables = [_NO_HEADERS]
    while len(rows) >= _TOGETHER_MIN:
        tables.append(_read_next_headers(views, rows, at[rows], ends[rows]))
        at[rows] = tables[-1][4]
        left[rows] -= 1
        rows = rows[left[rows] > 0]
    for row in rows.tolist():
        table = _read_one_by_one(views.data, row, int(at[row]), int(ends[row]), int(left[row]))
        tables.append(table)
        at[row] = table[4, -1]
    if (at != ends).any():
        raise InvalidRecord("Invalid record size: the headers do not end with their record")
    table = np.concatenate(tables, axis=1)
    return Headers(counts, table[:, np.argsort(table[0], kind="stable")])


def _read_next_headers(views: ByteViews, rows: Int64s, at: Int64s, ends: Int64s) -> _HeaderTable:
    """One header of each of these records."""
    keys = read_byte_fields(views, at, ends)
    if (keys.sizes < 0).any():
        raise InvalidRecord("Invalid negative header key size")
    # A value may end with the record.
    values = read_byte_fields(views, keys.ends, ends + 1)
    return np.stack([rows, keys.starts, keys.ends, values.starts, values.ends, values.sizes])


def _read_one_by_one(data: Buffer, row: int, at: int, end: int, count: int) -> _HeaderTable:
    """The next `count` headers of one record."""
    headers = []
    for _ in range(count):
        key_size, key_at = read_varint(data, at)
        key_end = key_at + key_size
        if key_size < 0:
            raise InvalidRecord("Invalid negative header key size")
        if key_end >= end:
            raise InvalidRecord("Invalid record size: a header ends after its record")
        value_size, value_at = read_varint(data, key_end)
        at = value_at + max(value_size, 0)
        if at > end:
            raise InvalidRecord("Invalid record size: a header ends after its record")
        headers.append((row, key_at, key_end, value_at, at, value_size))
    return np.array(headers, np.int64).T


def headers_column(views: ByteViews, headers: Headers) -> Any:
    """The headers as an Arrow array of lists, which is null for a record without headers."""
    counts = headers.counts
    if not headers.table.shape[1]:
        return pa.nulls(len(counts), HEADERS_TYPE)
    _, key_starts, key_ends, value_starts, value_ends, value_sizes = headers.table
    keys = _as_text(binary_column(views, ByteFields(key_starts, key_ends, key_ends - key_starts)))
    values = binary_column(views, ByteFields(value_starts, value_ends, value_sizes))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=HEADERS_TYPE, mask=pa.array(counts == 0))


def _as_text(keys: Any) -> Any:
    """Header keys as strings. Bytes that are not UTF-8 become U+FFFD, as in Java's clients."""
    try:
        return pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
