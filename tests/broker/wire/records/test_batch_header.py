"""The header of record batches: golden bytes, bounds, patching in place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    Compression,
    CorruptBatch,
    Record,
    TimestampType,
    UnsupportedMagic,
    check_crc,
    encode_batch,
    iter_headers,
    iter_records,
    patch,
    read_header,
    restamp,
)

# Offset 7 in epoch 3; producer 9000000001, its epoch 5, sequence 12, in a transaction. Two records: k=v, and one that
# is 5 ms older, without key and value, with the header h=null. The CRC is the one that kafka-python computes.
GOLDEN = bytes.fromhex(
    "0000000000000007 00000044 00000003 02 85f0e6c5 0010 00000001 0000018bcfe56800 0000018bcfe56800"
    "0000000218711a01 0005 0000000c 00000002"
    "10 00 00 00 02 6b 02 76 00"
    "12 00 09 02 01 01 02 02 68 01"
)
GOLDEN_RECORDS = [
    Record(7, 1_700_000_000_000, b"k", b"v"),
    Record(8, 1_699_999_999_995, None, None, (("h", None),)),
]


def batch_of(*values: bytes, base_offset: int = 0) -> bytes:
    return encode_batch([Record(value=value) for value in values], base_offset=base_offset)


def test_golden_bytes_are_written() -> None:
    batch = encode_batch(
        GOLDEN_RECORDS,
        leader_epoch=3,
        producer_id=9_000_000_001,
        producer_epoch=5,
        base_sequence=12,
        transactional=True,
    )
    assert batch == GOLDEN


def test_golden_bytes_are_read() -> None:
    header = read_header(GOLDEN)
    check_crc(GOLDEN, 0, header)
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 8, 9)
    assert (header.size, header.length, header.count) == (len(GOLDEN), len(GOLDEN) - LOG_OVERHEAD, 2)
    assert (header.partition_leader_epoch, header.magic) == (3, 2)
    assert (header.producer_id, header.producer_epoch, header.has_producer_id) == (9_000_000_001, 5, True)
    assert (header.base_sequence, header.last_sequence) == (12, 13)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_000)
    assert (header.is_transactional, header.is_control, header.delete_horizon_ms) == (True, False, None)
    assert (header.compression, header.timestamp_type) == (Compression.NONE, TimestampType.CREATE_TIME)
    assert list(iter_records(GOLDEN, 0, header)) == GOLDEN_RECORDS


def test_sequences_wrap_at_int32() -> None:
    records = [Record() for _ in range(4)]
    assert read_header(encode_batch(records, producer_id=1, base_sequence=2**31 - 2)).last_sequence == 1
    assert read_header(encode_batch(records)).last_sequence == NO_SEQUENCE


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1])
def test_too_few_bytes_for_a_header(size: int) -> None:
    with pytest.raises(CorruptBatch, match="too few"):
        read_header(GOLDEN[:size])
    with pytest.raises(CorruptBatch, match="too few"):
        read_header(GOLDEN, len(GOLDEN) - size)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, HEADER_SIZE - LOG_OVERHEAD - 1])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    batch = bytearray(GOLDEN)
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch, match="smaller than the minimum"):
        read_header(batch)


@pytest.mark.parametrize(
    ("magic", "error"), [(0, UnsupportedMagic), (1, UnsupportedMagic), (3, CorruptBatch), (255, CorruptBatch)]
)
def test_only_magic_2_is_read(magic: int, error: type[CorruptBatch]) -> None:
    batch = bytearray(GOLDEN)
    batch[16] = magic
    with pytest.raises(CorruptBatch) as caught:
        read_header(batch)
    assert type(caught.value) is error


@pytest.mark.parametrize("code", [5, 6, 7])
def test_unknown_compression_is_corrupt(code: int) -> None:
    batch = bytearray(GOLDEN)
    batch[22] |= code
    header = read_header(batch)
    with pytest.raises(CorruptBatch, match="Unknown compression type id"):
        _ = header.compression


def test_every_flipped_bit_from_the_attributes_on_breaks_the_crc() -> None:
    for position in range(21, len(GOLDEN)):
        for bit in range(8):
            batch = bytearray(GOLDEN)
            batch[position] ^= 1 << bit
            with pytest.raises(CorruptBatch, match="stored crc"):
                check_crc(batch, 0, read_header(batch))


def test_the_crc_of_a_cut_batch_is_not_computed() -> None:
    with pytest.raises(CorruptBatch, match="ends after"):
        check_crc(GOLDEN[:-1], 0, read_header(GOLDEN))


def test_patching_keeps_the_crc() -> None:
    buf = bytearray(b"xx" + GOLDEN + b"yy")
    patch(memoryview(buf), 2, 2**62, 2**31 - 1)
    header = read_header(buf, 2)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (2**62, 2**62 + 1, 2**31 - 1)
    check_crc(buf, 2, header)
    assert buf[:2] == b"xx"
    assert buf[-2:] == b"yy"
    assert buf[2 + 16 : -2] == GOLDEN[16:]


@pytest.mark.parametrize("kind", list(TimestampType))
def test_restamping_sets_type_and_time_and_seals_again(kind: TimestampType) -> None:
    buf = bytearray(b"xx" + GOLDEN + GOLDEN)
    header = read_header(buf, 2)
    restamp(buf, 2, header, kind, 1_800_000_000_000)
    assert header == read_header(buf, 2)
    check_crc(buf, 2, header)
    assert (header.timestamp_type, header.max_timestamp, header.is_transactional) == (kind, 1_800_000_000_000, True)
    assert buf[2 + len(GOLDEN) :] == GOLDEN
    times = [record.timestamp for record in iter_records(buf, 2, header)]
    if kind is TimestampType.LOG_APPEND_TIME:
        assert times == [1_800_000_000_000] * 2
    else:
        assert times == [record.timestamp for record in GOLDEN_RECORDS]


@given(st.lists(st.lists(st.binary(max_size=50), min_size=1, max_size=5), max_size=5), st.data())
def test_headers_of_whole_batches_are_found_and_a_torn_tail_is_not(
    values: list[list[bytes]], data: st.DataObject
) -> None:
    batches = [batch_of(*each, base_offset=100 * index) for index, each in enumerate(values)]
    buf = b"".join(batches)
    found = list(iter_headers(buf))
    assert [header.base_offset for _, header in found] == [100 * index for index in range(len(values))]
    assert [buf[position : position + header.size] for position, header in found] == batches
    cut = data.draw(st.integers(0, len(buf)))
    whole = [(position, header) for position, header in found if position + header.size <= cut]
    assert list(iter_headers(buf[:cut])) == whole


def test_garbage_after_a_batch_is_an_error_once_reached() -> None:
    headers = iter_headers(GOLDEN + bytes(HEADER_SIZE))
    assert next(headers)[0] == 0
    with pytest.raises(CorruptBatch):
        next(headers)
