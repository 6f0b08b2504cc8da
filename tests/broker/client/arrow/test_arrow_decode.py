"""Decoding fetched bytes to Arrow gives the same rows as the record path."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.arrow import COLUMNS, PRODUCER_COLUMNS, decode_arrow, schema_of
from broker.client.arrow.contents import gather_contents
from broker.client.records import decode_records
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import (
    Compression,
    CorruptBatch,
    EndTransactionMarker,
    InvalidRecord,
    InvalidTimestamp,
    Record,
    TimestampType,
    encode_batch,
    encode_end_transaction_marker,
    iter_headers,
)
from tests.support.record_strategies import TIME, records_lists

Row = tuple[Any, ...]
# Records that are decoded one by one do not contain their producers.
ALL = tuple(name for name in COLUMNS if name not in PRODUCER_COLUMNS)


def arrow_rows(data: bytes, **settings: Any) -> tuple[list[Row], int, WireError | None]:
    """The decoded rows, the next offset to fetch, and the error that ended decoding, if any."""
    rows: list[Row] = []
    reached = settings.setdefault("from_offset", 0)
    try:
        for batch, next_offset, _ in decode_arrow(data, "t", 3, columns=ALL, **settings):
            batch.validate(full=True)
            assert batch.schema == schema_of(ALL)
            columns = [
                column.cast(pa.int64()) if name == "timestamp" else column
                for name, column in zip(ALL, batch.columns, strict=True)
            ]
            rows += zip(*(column.to_pylist() for column in columns), strict=True)
            reached = next_offset
    except WireError as error:
        return rows, reached, error
    return rows, reached, None


def record_rows(data: bytes, **settings: Any) -> tuple[list[Row], int]:
    """The same rows as decoded by the record path."""
    records, next_offset = decode_records(data, "t", 3, **{"from_offset": 0, **settings})
    return [
        (
            record.key,
            record.value,
            record.topic,
            record.partition,
            record.offset,
            1000 * record.timestamp_ms,
            record.timestamp_type,
            [{"key": as_utf8(key), "value": value} for key, value in record.headers] or None,
        )
        for record in records
    ], next_offset


def as_utf8(key: str) -> str:
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@given(st.lists(st.tuples(records_lists, st.sampled_from(Compression)), min_size=1, max_size=4), st.data())
def test_rows_are_those_of_the_record_path(
    contents: list[tuple[list[Record], Compression]], draw: st.DataObject
) -> None:
    data, offset = b"", draw.draw(st.integers(0, 2**40))
    first = offset
    for records, compression in contents:
        stamp = draw.draw(st.sampled_from([{}, {"timestamp_type": TimestampType.LOG_APPEND_TIME, "max_timestamp": 7}]))
        data += encode_batch(records, base_offset=offset, compression=compression, **stamp)
        offset += len(records)
    data += draw.draw(st.sampled_from([b"", data[:40], bytes(70)])) if draw.draw(st.booleans()) else data[:100]
    from_offset = draw.draw(st.integers(first, offset))
    try:
        expected = (*record_rows(data, from_offset=from_offset),)
    except WireError:
        return
    rows, next_offset, _ = arrow_rows(data, from_offset=from_offset)
    assert (rows, next_offset) == expected


@given(records_lists, records_lists, st.sampled_from(Compression), st.data())
def test_damaged_bytes_give_the_rows_and_the_error_of_the_record_path(
    records: list[Record], more: list[Record], compression: Compression, draw: st.DataObject
) -> None:
    first = encode_batch(records, base_offset=0)
    damaged = bytearray(encode_batch(more, base_offset=len(records), compression=compression))
    for at in draw.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
        damaged[at] = draw.draw(st.integers(0, 255))
    data = first + damaged + draw.draw(st.sampled_from([b"", bytes(64)]))
    rows, next_offset, error = arrow_rows(data, check_crc=False)
    if isinstance(error, InvalidTimestamp):
        return
    assert (rows, next_offset) == record_rows(data, check_crc=False)
    if error is not None:
        with pytest.raises(type(error)):
            decode_records(data[len(first) :], "t", 3, from_offset=next_offset, check_crc=False)


@pytest.mark.parametrize("size", [100, 1024])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_long_runs_of_records_of_one_size(size: int, compression: Compression) -> None:
    batches = [
        encode_batch(
            [Record(timestamp=TIME + n // 7, key=b"%06d" % n, value=b"%0*d" % (size, n)) for n in range(first, last)],
            base_offset=first,
            compression=compression,
        )
        for first, last in ((0, 1), (1, 40), (40, 9_000), (9_000, 29_000))
    ]
    data = b"".join(batches)
    assert arrow_rows(data) == (*record_rows(data), None)


def test_rows_are_cut_into_record_batches_by_number_and_by_bytes() -> None:
    small = encode_batch([Record(value=b"") for _ in range(20_000)])
    assert [batch.num_rows for batch, *_ in decode_arrow(small, "t", 0, from_offset=0)] == [8192, 8192, 3616]
    large = encode_batch([Record(value=bytes(3 << 20)) for _ in range(7)])
    offsets = [next_offset for _, next_offset, _ in decode_arrow(large, "t", 0, from_offset=0)]
    assert offsets == [3, 6, 7]


@pytest.mark.parametrize("limit", [1, 3, 4, 10])
def test_decoding_ends_after_the_records_asked_for(limit: int) -> None:
    data = b"".join(
        encode_batch([Record(value=b"%d" % n) for n in range(4)], base_offset=4 * index, leader_epoch=index)
        for index in range(5)
    )
    decoded = list(decode_arrow(data, "t", 0, from_offset=6, max_records=limit))
    assert sum(each.rows.num_rows for each in decoded) == limit
    last = 6 + limit - 1
    assert (decoded[-1].next_offset, decoded[-1].leader_epoch) == (last + 1, last // 4)


def test_only_the_columns_asked_for_are_made_in_their_order() -> None:
    data = encode_batch([Record(timestamp=TIME, value=b"v")], base_offset=7)
    ((batch, *_),) = decode_arrow(data, "t", 0, from_offset=0, columns=["offset", "value"])
    assert batch.to_pylist() == [{"offset": 7, "value": b"v"}]
    assert batch.schema.names == ["offset", "value"]
    with pytest.raises(ValueError, match="No column 'vlaue'"):
        next(decode_arrow(data, "t", 0, from_offset=0, columns=["vlaue"]))
    with pytest.raises(ValueError, match="at least one"):
        next(decode_arrow(data, "t", 0, from_offset=0, columns=[]))


def test_the_schema_is_that_of_sparks_connector() -> None:
    assert str(schema_of()) == (
        "key: binary\nvalue: binary\ntopic: string\npartition: int32\noffset: int64\n"
        "timestamp: timestamp[us, tz=UTC]\ntimestampType: int32"
    )
    assert schema_of(["headers"]).field("headers").type.value_field.name == "element"


def test_aborted_transactions_and_control_batches_are_left_out() -> None:
    def sent(first: int, producer_id: int, value: bytes) -> bytes:
        return encode_batch(
            [Record(timestamp=TIME, value=value)],
            base_offset=first,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    end = encode_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        timestamp=TIME,
        producer_id=1,
        producer_epoch=0,
        base_offset=2,
    )
    data = sent(0, 1, b"aborted") + sent(1, 2, b"kept") + end
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    rows, next_offset, _ = arrow_rows(data, read_committed=True, aborted=aborted)
    assert ([(row[1], row[4]) for row in rows], next_offset) == ([(b"kept", 1)], 3)
    rows, _, _ = arrow_rows(data, aborted=aborted)
    assert [row[1] for row in rows] == [b"aborted", b"kept"]


def test_batches_without_records_for_the_reader_still_advance_the_offset() -> None:
    emptied = encode_batch([], base_offset=0, last_offset=9, leader_epoch=4)
    ((batch, next_offset, epoch),) = decode_arrow(emptied, "t", 0, from_offset=3)
    assert (batch.num_rows, batch.schema, next_offset, epoch) == (0, schema_of(), 10, 4)
    assert list(decode_arrow(b"", "t", 0, from_offset=3)) == []


def test_the_offset_to_fetch_next_never_goes_back() -> None:
    first = encode_batch([Record(value=b"a") for _ in range(5)], base_offset=10)
    overlapping = encode_batch([Record(value=b"b"), Record(value=b"c")], base_offset=10)
    for data in (first + overlapping, first + overlapping + bytes(64)[:60]):
        assert arrow_rows(data) == (*record_rows(data), None)
        offsets = [next_offset for _, next_offset, _ in decode_arrow(data, "t", 0, from_offset=0)]
        assert offsets == [15] * len(offsets)


def test_a_checksum_that_is_wrong_raises_after_the_rows_before() -> None:
    damaged = bytearray(encode_batch([Record(value=b"b")], base_offset=1))
    damaged[-2] ^= 1
    rows, next_offset, error = arrow_rows(encode_batch([Record(value=b"a")]) + damaged)
    assert ([row[1] for row in rows], next_offset, type(error)) == ([b"a"], 1, CorruptBatch)


@pytest.mark.parametrize("timestamp", [2**62, 9_223_372_036_854_776, -9_223_372_036_854_776])
def test_timestamps_beyond_microseconds_are_refused_where_they_are_asked_for(timestamp: int) -> None:
    data = encode_batch([Record(timestamp=timestamp, value=b"v")])
    with pytest.raises(InvalidTimestamp, match="leave its column out"):
        list(decode_arrow(data, "t", 0, from_offset=0))
    ((batch, *_),) = decode_arrow(data, "t", 0, from_offset=0, columns=["value"])
    assert batch.num_rows == 1


def test_timestamps_whose_sum_overflows_are_refused() -> None:
    data = bytearray(encode_batch([Record(timestamp=0), Record(timestamp=2**62)], max_timestamp=0))
    data[27:35] = (2**62).to_bytes(8)
    with pytest.raises(InvalidTimestamp):
        list(decode_arrow(data, "t", 0, from_offset=0, check_crc=False))


def test_records_with_very_many_headers_take_time_in_proportion() -> None:
    many = tuple((f"{n}", b"%d" % n) for n in range(50_000))
    few = (("a", None), ("b", b""))
    records = [Record(value=b"v", headers=headers) for headers in [many, *[few] * 20, (), many]]
    data = encode_batch(records)
    assert arrow_rows(data) == (*record_rows(data), None)


def test_header_keys_that_are_not_utf8_are_replaced() -> None:
    data = encode_batch([Record(value=b"v", headers=(("caf\udce9", b"x"),))])
    rows, _, _ = arrow_rows(data)
    assert rows[0][-1] == [{"key": "caf\ufffd", "value": b"x"}]


@pytest.mark.parametrize("count", [2**31 - 1, 2])
def test_counts_beyond_the_records_are_invalid(count: int) -> None:
    data = bytearray(encode_batch([Record(value=b"v")], last_offset=count - 1) + bytes(64))
    data[57:61] = count.to_bytes(4)
    rows, _, error = arrow_rows(data, check_crc=False)
    assert (rows, type(error)) == ([], InvalidRecord)


def test_small_batches_are_joined_up_to_the_records_that_are_wanted() -> None:
    data = b"".join(encode_batch([Record(value=b"v")] * 2, base_offset=2 * number) for number in range(5)) + bytes(64)
    batches = [(position, header, True) for position, header in iter_headers(data[:-64])]
    joined = [[header.base_offset for header, _, _ in each.batches] for each in gather_contents(data, batches, 4)]
    assert joined == [[0, 2], [4, 6], [8]]
