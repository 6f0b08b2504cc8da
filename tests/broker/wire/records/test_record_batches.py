"""Building batches and reading their records back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.errors import WireError
from broker.wire.records import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Compression,
    CorruptBatch,
    InvalidRecord,
    Record,
    TimestampType,
    check_records,
    encode_batch,
    iter_records,
    read_header,
)
from broker.wire.records.varint import VARINT_SIZE_MAX, read_varint, varint
from tests.support.decoded_batches import decoded

TIME = 1_700_000_000_000

optional_bytes = st.none() | st.binary(max_size=300)
record_headers = st.lists(st.tuples(st.text(max_size=20), optional_bytes), max_size=4).map(tuple)
records_lists = st.lists(
    st.builds(
        Record,
        timestamp=st.just(NO_TIMESTAMP) | st.integers(0, 2**62),
        key=optional_bytes,
        value=optional_bytes,
        headers=record_headers,
    ),
    min_size=1,
    max_size=20,
)


@given(records_lists, st.sampled_from(Compression), st.integers(0, 2**62))
def test_records_come_back_as_they_were(records: list[Record], compression: Compression, base_offset: int) -> None:
    batch = encode_batch(records, compression=compression, base_offset=base_offset)
    header = read_header(batch)
    found = decoded(batch)
    assert [record.offset for record in found] == [base_offset + index for index in range(len(records))]
    assert [(r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records
    ]
    assert header.compression is compression
    assert header.count == len(records)
    assert header.max_timestamp == max(record.timestamp for record in records)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_large_record_among_small_ones(compression: Compression) -> None:
    records = [Record(0, TIME, b"a", b"1"), Record(1, TIME, b"b", bytes(3_000_000)), Record(2, TIME, b"c", b"3")]
    assert decoded(encode_batch(records, compression=compression)) == records


def test_a_batch_is_read_from_the_middle_of_a_buffer() -> None:
    batch = encode_batch([Record(0, TIME, b"k", b"v")])
    buf = memoryview(bytearray(b"before" + batch + b"after"))
    record = next(iter_records(buf, 6, read_header(buf, 6)))
    assert record == Record(0, TIME, b"k", b"v")
    assert type(record.key) is bytes


def test_the_defaults_are_those_of_a_plain_producer() -> None:
    header = read_header(encode_batch([Record(value=b"a"), Record(value=b"b")]))
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (0, 1, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, -1, -1)


def test_every_field_can_be_set() -> None:
    batch = encode_batch(
        [Record(105, TIME, b"k", b"v"), Record(107, TIME + 5, b"k", None)],
        base_offset=100,
        last_offset=109,
        leader_epoch=4,
        compression=Compression.ZSTD,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=TIME + 9,
        producer_id=8,
        producer_epoch=2,
        base_sequence=30,
        transactional=True,
        control=True,
        delete_horizon_ms=TIME - 1000,
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch, header.count) == (100, 109, 4, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (8, 2, 30, 39)
    assert header.attributes == 4 | 0x08 | 0x10 | 0x20 | 0x40
    assert (header.is_transactional, header.is_control, header.delete_horizon_ms) == (True, True, TIME - 1000)
    assert [(record.offset, record.timestamp) for record in decoded(batch)] == [(105, TIME + 9), (107, TIME + 9)]


def test_a_delete_horizon_leaves_the_records_times_alone() -> None:
    records = [Record(0, TIME, b"k", None), Record(1, TIME + 7, b"k", b"v")]
    assert decoded(encode_batch(records, delete_horizon_ms=TIME + 86_400_000)) == records


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_may_lose_all_its_records_and_keep_its_range(compression: Compression) -> None:
    batch = encode_batch([], base_offset=10, last_offset=14, max_timestamp=TIME, compression=compression)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.count, header.size) == (10, 14, 0, HEADER_SIZE)
    assert decoded(batch) == []


def test_header_keys_that_are_not_utf8_survive() -> None:
    batch = bytearray(encode_batch([Record(headers=(("ab", b"x"),))]))
    at = batch.index(b"ab")
    batch[at : at + 2] = b"\xff\xfe"
    (record,) = iter_records(batch, 0, read_header(batch))
    again = encode_batch([record])
    assert b"\xff\xfe" in again


def with_body(body: bytes, count: int) -> bytes:
    """A batch of `count` records whose bytes are `body`."""
    batch = bytearray(encode_batch([], last_offset=max(count - 1, 0)))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    batch[8:12] = (len(body) + HEADER_SIZE - 12).to_bytes(4, "big")
    return bytes(batch) + body


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param("0c 00 00 00 01 01 00", 2, id="one record too few"),
        pytest.param("0c 00 00 00 01 01 00  0c 00 00 02 01 01 00", 1, id="one record too many"),
        pytest.param("0c 00 00 00 01 01", 1, id="cut"),
        pytest.param("", 1, id="nothing"),
        pytest.param("0a 00 00 00 01 01 00", 1, id="record longer than declared"),
        pytest.param("0e 00 00 00 01 01 00", 1, id="record shorter than declared"),
        pytest.param("01 00 00 00 01 01 00", 1, id="negative size"),
        pytest.param("0c 00 00 00 14 01 00", 1, id="key beyond the end"),
        pytest.param("0c 00 00 00 01 01 01", 1, id="negative header count"),
        pytest.param("10 00 00 00 01 01 02 01 01", 1, id="null header key"),
        pytest.param("0c 00 00 00 01 01 0e", 1, id="more headers than bytes"),
        pytest.param("ff ff ff ff ff ff ff ff ff ff ff 01", 1, id="endless varint"),
    ],
)
def test_malformed_records_are_invalid(body: str, count: int) -> None:
    batch = with_body(bytes.fromhex(body), count)
    with pytest.raises(InvalidRecord):
        list(iter_records(batch, 0, read_header(batch)))
    with pytest.raises(InvalidRecord):
        check_records(batch, 0, read_header(batch))


def test_the_rest_of_a_batch_must_be_there() -> None:
    batch = encode_batch([Record(value=b"v" * 10)])
    with pytest.raises(CorruptBatch, match="ends after"):
        list(iter_records(batch[:-1], 0, read_header(batch)))


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_decompression_is_bounded(compression: Compression) -> None:
    batch = encode_batch([Record(value=bytes(1_000_000))], compression=compression)
    assert len(batch) < 60_000
    with pytest.raises(CorruptBatch, match="more than the 900000 bytes"):
        list(iter_records(batch, 0, read_header(batch), max_size=900_000))


@given(records_lists, st.sampled_from(Compression), st.data())
def test_mutated_batches_raise_wire_errors_only(
    records: list[Record], compression: Compression, data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records, compression=compression))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        for record in iter_records(batch, 0, read_header(batch), max_size=1_000_000):
            assert isinstance(record, Record)
    except WireError:
        pass


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_roundtrip(value: int) -> None:
    encoded = varint(value)
    assert len(encoded) <= VARINT_SIZE_MAX
    assert read_varint(b"?" + encoded + b"\xff", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (-8193, "818001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_are_those_of_protocol_buffers(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
