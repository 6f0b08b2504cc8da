"""Records as Arrow columns: the form of a table's rows before they are encoded as batches."""

from typing import Any, Final, Unpack, overload

import attrs

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.encode import encode_columns, encode_header_lists, record_sizes
from broker.client.arrow.libraries import np, pa, pc
from broker.client.records import BatchSettings, NewRecord, RecordColumns
from broker.wire.records import Compression
from broker.wire.records.record import encode_data

_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: Final = (
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    *_TEXTS,
)


@attrs.frozen(eq=False)
class ArrowRecords(RecordColumns):
    """Records as columns: timestamps in ms, keys and values of type binary, lists of headers or None for none at all.

    A slice of it is made without copying the bytes.
    """

    timestamps: Int64s
    keys: Any
    values: Any
    headers: Any

    @classmethod
    def of(cls, rows: Any, now_ms: int) -> "ArrowRecords":
        """The columns `key`, `value`, `timestamp` and `headers` of a pyarrow RecordBatch; each may be missing.

        A timestamp that is null is `now_ms`. Raises TypeError for a column of another type than it should have, and
        ValueError for a timestamp before 1970.
        """
        found = cls(_timestamps(rows, now_ms), _bytes_column(rows, "key"), _bytes_column(rows, "value"), _headers(rows))
        if len(rows) and found.timestamps.min() < 0:
            raise ValueError("a timestamp is a number of milliseconds since 1970, not less than 0")
        return found

    def __len__(self) -> int:
        return len(self.timestamps)

    @overload
    def __getitem__(self, index: int) -> NewRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "ArrowRecords": ...
    def __getitem__(self, index: int | slice) -> "NewRecord | ArrowRecords":
        if isinstance(index, slice):
            headers = None if self.headers is None else self.headers[index]
            return ArrowRecords(self.timestamps[index], self.keys[index], self.values[index], headers)
        headers = [] if self.headers is None else self.headers[index].as_py() or []
        pairs = tuple((header["key"], header["value"]) for header in headers)
        return int(self.timestamps[index]), self.keys[index].as_py(), self.values[index].as_py(), pairs

    def take(self, rows: Int64s) -> "ArrowRecords":
        """The records of these rows, in this order."""
        indices = pa.array(rows)
        headers = None if self.headers is None else self.headers.take(indices)
        return ArrowRecords(self.timestamps[rows], self.keys.take(indices), self.values.take(indices), headers)

    def sizes(self) -> Int64s:
        """At most how many bytes each record takes in a batch, before compression.

        Raises ValueError for a header without a key.
        """
        return record_sizes(self.timestamps, self.keys, self.values, self._encoded_headers())

    def encode(self, *, compression: Compression, **settings: Unpack[BatchSettings]) -> bytes:
        """The records as one batch, byte for byte as `encode_records` makes it."""
        data = encode_columns(self.timestamps, self.keys, self.values, self._encoded_headers())
        base, latest = int(self.timestamps[0]), int(self.timestamps.max())
        return encode_data(data, len(self), base, latest, compression, **settings)

    def _encoded_headers(self) -> Any:
        return None if self.headers is None else encode_header_lists(self.headers)


def _timestamps(rows: Any, now_ms: int) -> Int64s:
    column = _column(rows, "timestamp")
    if column is None:
        return np.full(len(rows), now_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise TypeError(f"the column timestamp is a timestamp or a number of milliseconds, not {column.type}")
    times: Int64s = column.cast(pa.int64()).fill_null(now_ms).to_numpy(zero_copy_only=False)
    return times


def _bytes_column(rows: Any, name: str) -> Any:
    column = _column(rows, name)
    if column is None:
        return pa.nulls(len(rows), pa.binary())
    if not any(is_type(column.type) for is_type in _BYTES):
        raise TypeError(f"the column {name} is binary or string, not {column.type}: serialize it first")
    return column.cast(pa.binary())


def _headers(rows: Any) -> Any:
    column = _column(rows, "headers")
    if column is None:
        return None
    if not _is_list(column.type) or not _has_headers(column.type.value_type):
        raise TypeError(f"the column headers is a list of structs with key and value, not {column.type}")
    has_some = pc.any(pc.greater(pc.list_value_length(column), 0)).as_py()
    return column if has_some else None


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _has_headers(kind: Any) -> bool:
    if not pa.types.is_struct(kind) or {field.name for field in kind} != {"key", "value"}:
        return False
    key, value = kind.field("key").type, kind.field("value").type
    return any(is_type(key) for is_type in _TEXTS) and any(is_type(value) for is_type in _BYTES)


def _column(rows: Any, name: str) -> Any:
    """None where there is no such column, or one of nulls without a type."""
    if name not in rows.schema.names:
        return None
    column = rows.column(name)
    return None if pa.types.is_null(column.type) else column
