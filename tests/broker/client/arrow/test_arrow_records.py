"""Encoding Arrow columns to batches gives the same batches as the record path."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.arrow import decode_arrow, schema_of
from broker.client.arrow.records import ArrowRecords
from broker.client.arrow.schema import HEADERS_TYPE
from broker.client.records import encode_records
from broker.wire.records import Compression, Record
from tests.support.record_strategies import TIME, records_lists

NOW = TIME + 5


def plain(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None, Any]]:
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


def columns(records: list[Record]) -> dict[str, Any]:
    headers = [
        [{"key": name, "value": content} for name, content in record.headers] if record.headers else None
        for record in records
    ]
    return {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        "headers": pa.array(headers, HEADERS_TYPE),
    }


def rows_of(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


@given(records_lists, st.sampled_from(Compression), st.booleans(), st.integers(0, 3))
def test_columns_are_encoded_byte_for_byte_as_by_the_record_path(
    records: list[Record], compression: Compression, is_transactional: bool, skipped: int
) -> None:
    records = [record for record in records if record.timestamp >= 0]
    kept = records[skipped:]
    if not kept:
        return
    settings: dict[str, Any] = {
        "compression": compression,
        "producer_id": 2**40,
        "producer_epoch": 3,
        "base_sequence": 2**31 - 1,
        "is_transactional": is_transactional,
    }
    found = ArrowRecords.of(rows_of(**columns(records)), NOW)[skipped:]
    assert found.encode(**settings) == encode_records(plain(kept), **settings)
    assert list(found) == [(time, key, value, tuple(headers)) for time, key, value, headers in plain(kept)]


@given(records_lists)
def test_sizes_are_upper_bounds_of_the_encoded_records(records: list[Record]) -> None:
    records = [record for record in records if record.timestamp >= 0]
    found = ArrowRecords.of(rows_of(**columns(records)), NOW)
    for start in range(0, len(records), 50):
        part = records[start : start + 50]
        taken = len(encode_records(plain(part), compression=Compression.NONE)) - 61
        assert taken <= found.sizes()[start : start + 50].sum() <= taken + 30 * len(part)


def test_decoded_records_can_be_encoded() -> None:
    records = [Record(n, TIME + n, b"k%d" % n, b"v" * n, (("a", None), ("b", b"c"))[: n % 3]) for n in range(100)]
    batch = encode_records(plain(records), compression=Compression.LZ4)
    names = ["key", "value", "timestamp", "headers"]
    ((rows, *_),) = decode_arrow(batch, "t", 0, from_offset=0, columns=names)
    assert rows.schema == schema_of(names)
    assert ArrowRecords.of(rows, NOW).encode(compression=Compression.LZ4) == batch


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view(), pa.binary(3)]
)
def test_text_and_bytes_of_all_kinds_are_taken(kind: Any) -> None:
    found = ArrowRecords.of(rows_of(value=pa.array(["abc", None, "def"], pa.string()).cast(kind)), NOW)
    assert list(found) == [(NOW, None, b"abc", ()), (NOW, None, None, ()), (NOW, None, b"def", ())]


def test_timestamps_of_all_units_and_none() -> None:
    for unit, factor in (("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)):
        times = pa.array([int(TIME * factor), None], pa.timestamp(unit, "UTC"))
        assert ArrowRecords.of(rows_of(timestamp=times), NOW).timestamps.tolist() == [TIME, NOW]


def test_lists_of_headers_that_are_null_may_hide_some() -> None:
    values = pa.array([{"key": name, "value": None} for name in "abcd"], HEADERS_TYPE.value_type)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), values, mask=pa.array([False, True, False]))
    found = ArrowRecords.of(rows_of(headers=lists), NOW)
    assert found.encode(compression=Compression.NONE) == encode_records(list(found), compression=Compression.NONE)
    assert [headers for *_, headers in found] == [(("a", None),), (), (("d", None),)]


def test_nulls_may_hide_bytes() -> None:
    hidden = pa.BinaryArray.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 2, 5], np.int32)), pa.py_buffer(b"xxabc")]
    )
    found = ArrowRecords.of(rows_of(key=hidden, value=hidden), NOW)
    assert found.encode(compression=Compression.NONE) == encode_records(
        [(NOW, None, None, ()), (NOW, b"abc", b"abc", ())], compression=Compression.NONE
    )


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"value": pa.array([1])}, TypeError, "the column value is binary or string, not int64"),
        ({"timestamp": pa.array(["now"])}, TypeError, "the column timestamp is a timestamp"),
        ({"headers": pa.array([["a"]])}, TypeError, "the column headers is a list of structs"),
        ({"timestamp": pa.array([-1])}, ValueError, "since 1970"),
    ],
)
def test_columns_that_are_no_records_are_refused(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ArrowRecords.of(rows_of(**wrong), NOW)


def test_headers_without_a_key_are_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": None, "value": b"x"}]], kind)
    with pytest.raises(ValueError, match="a header has no key"):
        ArrowRecords.of(rows_of(headers=headers), NOW).sizes()
