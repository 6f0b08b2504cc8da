"""Decoding of ConsumerRecords and encoding of batches, compared with the simple decoder and encoder."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.records import decode_records, encode_records
from broker.client.types import ConsumerRecord
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import (
    HEADER_SIZE,
    Compression,
    CorruptBatch,
    EndTransactionMarker,
    InvalidRecord,
    Record,
    TimestampType,
    encode_batch,
    encode_end_transaction_marker,
    iter_headers,
)
from broker.wire.records.record import records_data
from tests.support.plain_records import read_plainly
from tests.support.record_strategies import TIME, records_lists


def batch(first: int, *values: str, **fields: object) -> bytes:
    records = [Record(timestamp=TIME, value=value.encode()) for value in values]
    return encode_batch(records, base_offset=first, **fields)  # type: ignore[arg-type]


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return encode_end_transaction_marker(
        EndTransactionMarker(is_commit, 0),
        timestamp=TIME,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=offset,
    )


def transactional(first: int, producer_id: int, *values: str) -> bytes:
    return batch(first, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def found(data: bytes, **settings: object) -> tuple[list[tuple[int, str]], int]:
    """The offsets and values, and the next offset to fetch."""
    records, next_offset = decode_records(data, "t", 0, **{"from_offset": 0, **settings})  # type: ignore[arg-type]
    return [(record.offset, (record.value or b"").decode()) for record in records], next_offset


def plain_records(data: bytes, from_offset: int) -> list[ConsumerRecord]:
    records = []
    for position, header in iter_headers(data):
        content = bytes(records_data(data, position, header))
        epoch = None if header.partition_leader_epoch == -1 else header.partition_leader_epoch
        appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        for offset_delta, timestamp_delta, key, value, headers in read_plainly(content, header.count):
            offset = header.base_offset + offset_delta
            timestamp = header.max_timestamp if appended else header.base_timestamp + timestamp_delta
            if offset >= from_offset:
                records.append(
                    ConsumerRecord("t", 3, offset, timestamp, header.timestamp_type, key, value, headers, epoch)
                )
    return records


@given(st.lists(st.tuples(records_lists, st.sampled_from(Compression)), max_size=3), st.data())
def test_records_are_decoded_as_by_the_plain_reader(
    contents: list[tuple[list[Record], Compression]], draw: st.DataObject
) -> None:
    data, offset = b"", draw.draw(st.integers(0, 2**40))
    first = offset
    for records, compression in contents:
        stamp = draw.draw(st.sampled_from([{}, {"timestamp_type": TimestampType.LOG_APPEND_TIME, "max_timestamp": 7}]))
        epoch = draw.draw(st.sampled_from([-1, 0, 9]))
        data += encode_batch(records, base_offset=offset, compression=compression, leader_epoch=epoch, **stamp)
        offset += len(records)
    from_offset = draw.draw(st.integers(first, offset))
    decoded, next_offset = decode_records(data, "t", 3, from_offset=from_offset)
    assert decoded == plain_records(data, from_offset)
    assert all(type(record) is ConsumerRecord for record in decoded)
    assert next_offset == max(offset, from_offset)


def test_a_batch_cut_at_the_end_is_left_for_the_next_fetch() -> None:
    whole, cut = batch(5, "a", "b"), batch(7, "c")
    assert found(whole + cut[:-1]) == ([(5, "a"), (6, "b")], 7)
    assert found(whole[: HEADER_SIZE - 1], from_offset=5) == ([], 5)


def test_records_below_the_fetch_offset_are_dropped() -> None:
    data = batch(5, "a", "b", "c") + batch(8, "d")
    assert found(data, from_offset=6) == ([(6, "b"), (7, "c"), (8, "d")], 9)
    assert found(data, from_offset=8) == ([(8, "d")], 9)


def test_control_batches_advance_the_fetch_offset_without_records() -> None:
    data = transactional(0, 4, "a") + marker(1, 4, is_commit=True)
    assert found(data) == ([(0, "a")], 2)
    assert found(data, read_committed=True) == ([(0, "a")], 2)


def test_empty_batches_of_the_cleaner_advance_the_fetch_offset() -> None:
    assert found(encode_batch([], base_offset=3, last_offset=9), from_offset=4) == ([], 10)


def test_read_committed_drops_aborted_transactions_up_to_their_markers() -> None:
    data = (
        transactional(0, 1, "aborted")
        + transactional(1, 2, "committed")
        + batch(2, "plain")
        + transactional(3, 1, "aborted too")
        + marker(4, 1, is_commit=False)
        + transactional(5, 1, "next transaction")
        + marker(6, 2, is_commit=True)
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    committed = [(1, "committed"), (2, "plain"), (5, "next transaction")]
    assert found(data, read_committed=True, aborted=aborted) == (committed, 7)
    everything = [(0, "aborted"), (1, "committed"), (2, "plain"), (3, "aborted too"), (5, "next transaction")]
    assert found(data, aborted=aborted) == (everything, 7)


def test_read_committed_takes_several_aborted_transactions_of_one_producer_in_any_order() -> None:
    data = b"".join(
        (
            transactional(0, 1, "first"),
            marker(1, 1, is_commit=False),
            transactional(2, 1, "kept"),
            marker(3, 1, is_commit=True),
            transactional(4, 1, "second"),
            marker(5, 1, is_commit=False),
        )
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=4), AbortedTransaction(producer_id=1, first_offset=0)]
    assert found(data, read_committed=True, aborted=aborted) == ([(2, "kept")], 6)


def test_an_abort_marker_that_the_cleaner_emptied_ends_nothing() -> None:
    emptied = encode_batch(
        [], base_offset=1, last_offset=1, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    data = transactional(0, 1, "a") + emptied + transactional(2, 1, "b")
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    assert found(data, read_committed=True, aborted=aborted) == ([], 3)


def test_records_before_a_damaged_batch_are_returned_and_the_next_fetch_raises() -> None:
    damaged = bytearray(batch(1, "b"))
    damaged[-2] ^= 1
    data = batch(0, "a") + damaged + batch(2, "c")
    assert found(data) == ([(0, "a")], 1)
    with pytest.raises(CorruptBatch, match="crc"):
        found(bytes(damaged) + batch(2, "c"), from_offset=1)
    assert found(data, check_crc=False) == ([(0, "a"), (1, "c"), (2, "c")], 3)


@pytest.mark.parametrize(
    ("position", "field"),
    [
        pytest.param(0, b"\xff" * 8, id="negative base offset"),
        pytest.param(0, b"\x7f" + b"\xff" * 7, id="base offset without a next one"),
        pytest.param(23, b"\xff" * 4, id="negative last offset delta"),
        pytest.param(57, b"\x80\x00\x00\x00", id="negative count"),
    ],
)
def test_offset_ranges_and_counts_of_headers_are_checked(position: int, field: bytes) -> None:
    data = bytearray(batch(0, "a"))
    data[position : position + len(field)] = field
    with pytest.raises(CorruptBatch):
        found(data, check_crc=False)


def test_offsets_of_records_outside_of_the_batch_are_corrupt() -> None:
    data = batch(0, "a", "b", "c", last_offset=1)
    with pytest.raises(CorruptBatch, match=r"range \[0, 1\]"):
        found(data)


def test_a_count_that_is_not_the_records_is_invalid() -> None:
    data = bytearray(batch(0, "a", "b"))
    data[57:61] = (3).to_bytes(4)
    with pytest.raises(InvalidRecord):
        found(data, check_crc=False)


def test_decompression_per_call_is_bounded() -> None:
    large = batch(0, "x" * (60 << 20), compression=Compression.ZSTD)
    data = bytearray(large * 3)
    for index in range(3):
        data[index * len(large) : index * len(large) + 8] = index.to_bytes(8)
    records, next_offset = decode_records(data, "t", 0, from_offset=0)
    assert (len(records), next_offset) == (2, 2)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_decoding_runs_no_collection_of_garbage_and_leaves_the_collector_as_it_was(is_enabled: bool) -> None:
    data = batch(0, *("x" * 10_000))
    collections: list[str] = []
    found_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    gc.collect()
    # With a threshold of one object, a collection would begin at once.
    thresholds = gc.get_threshold()
    gc.callbacks.append(lambda phase, _: collections.append(phase))
    try:
        gc.set_threshold(1)
        collections.clear()
        records, _ = decode_records(data, "t", 0, from_offset=0)
        in_decoding = len(collections)
        with pytest.raises(CorruptBatch):
            decode_records(data[:-1] + b"y", "t", 0, from_offset=0)
        assert gc.isenabled() is is_enabled
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
        (gc.enable if found_enabled else gc.disable)()
    assert len(records) == 10_000
    assert in_decoding < 100, "those before and after, not one after every few records"


@given(records_lists, st.data())
def test_damaged_batches_raise_wire_errors_only(records: list[Record], draw: st.DataObject) -> None:
    data = bytearray(encode_batch(records, compression=draw.draw(st.sampled_from(Compression))))
    for at in draw.draw(st.lists(st.integers(0, len(data) - 1), max_size=3)):
        data[at] = draw.draw(st.integers(0, 255))
    aborted = [AbortedTransaction(producer_id=-1, first_offset=0)]
    try:
        _, next_offset = decode_records(
            data, "t", 0, from_offset=0, check_crc=False, read_committed=True, aborted=aborted
        )
    except WireError:
        return
    assert 0 <= next_offset < 2**63


@given(records_lists, st.sampled_from(Compression), st.booleans())
def test_records_are_encoded_byte_for_byte_as_by_the_plain_writer(
    records: list[Record], compression: Compression, is_transactional: bool
) -> None:
    encoded = encode_records(
        [(record.timestamp, record.key, record.value, record.headers) for record in records],
        compression=compression,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=17,
        is_transactional=is_transactional,
    )
    assert encoded == encode_batch(
        records,
        compression=compression,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=17,
        transactional=is_transactional,
    )


def test_a_large_record_among_small_ones_is_encoded() -> None:
    records = [Record(timestamp=TIME, value=b"x" * size) for size in (1, 100_000, 0)]
    plain = [(record.timestamp, None, record.value, ()) for record in records]
    assert encode_records(plain, compression=Compression.NONE) == encode_batch(records)


def test_compression_levels_reach_the_codec() -> None:
    records = [(TIME, None, b"%d" % (n * n), ()) for n in range(3000)]
    fast = encode_records(records, compression=Compression.ZSTD, compression_level=1)
    small = encode_records(records, compression=Compression.ZSTD, compression_level=19)
    assert len(small) < len(fast)
