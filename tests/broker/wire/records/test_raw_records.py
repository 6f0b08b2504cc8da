"""Batches from which records are removed: the remaining bytes and the other header fields are unchanged."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.records import (
    Compression,
    InvalidRecord,
    Record,
    TimestampType,
    encode_batch,
    iter_records,
    read_header,
)
from broker.wire.records.batch import HEADER
from broker.wire.records.raw import batch_of_records, empty_batch, scan_records
from broker.wire.records.record import records_data
from tests.support.decoded_batches import decoded

BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(-1, 2**50),
        key=BYTES,
        value=BYTES,
        headers=HEADERS,
    ),
    min_size=1,
    max_size=12,
)


def data_of(batch: bytes) -> bytes:
    return bytes(records_data(batch, 0, read_header(batch)))


@given(records=RECORDS, compression=st.sampled_from(Compression), base_offset=st.integers(0, 2**40))
def test_a_scan_finds_the_same_records_as_a_reader(
    records: Sequence[Record], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(records, base_offset=base_offset, compression=compression)
    header, data = read_header(batch), data_of(batch)
    scanned, at = scan_records(data, 0, header.count)
    assert at == len(data)
    assert [
        (header.base_offset + record[4], header.base_timestamp + record[3], record[5], record[6]) for record in scanned
    ] == [(record.offset, record.timestamp, record.key, record.value is not None) for record in decoded(batch)]


@given(
    records=RECORDS,
    keep=st.lists(st.booleans(), min_size=12, max_size=12),
    compression=st.sampled_from(Compression),
    horizon=st.none() | st.integers(0, 2**50),
    timestamp_type=st.sampled_from(TimestampType),
)
def test_kept_records_are_unchanged(
    records: Sequence[Record],
    keep: Sequence[bool],
    compression: Compression,
    horizon: int | None,
    timestamp_type: TimestampType,
) -> None:
    batch = encode_batch(
        records,
        base_offset=100,
        compression=compression,
        timestamp_type=timestamp_type,
        max_timestamp=77 if timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        leader_epoch=4,
        producer_id=7,
        producer_epoch=2,
        base_sequence=50,
    )
    header, data = read_header(batch), data_of(batch)
    scanned, _ = scan_records(data, 0, header.count)
    kept = [record for record, keeps in zip(scanned, keep, strict=False) if keeps] or scanned[:1]
    smaller = batch_of_records(header, data, kept, horizon)
    wanted = {header.base_offset + record[4] for record in kept}
    assert decoded(smaller) == [record for record in decoded(batch) if record.offset in wanted]
    after = read_header(smaller)
    assert after.delete_horizon_ms == horizon
    assert (after.base_offset, after.last_offset, after.count) == (100, header.last_offset, len(kept))
    assert (after.producer_id, after.producer_epoch, after.base_sequence, after.last_sequence) == (
        7,
        2,
        50,
        header.last_sequence,
    )
    assert (after.partition_leader_epoch, after.compression) == (4, compression)
    assert after.max_timestamp == (
        77 if timestamp_type is TimestampType.LOG_APPEND_TIME else max(record.timestamp for record in decoded(smaller))
    )


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_without_records_keeps_its_range_and_its_producer(compression: Compression) -> None:
    batch = encode_batch(
        [Record(timestamp=at, key=b"k") for at in range(5)],
        base_offset=9,
        compression=compression,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=20,
        delete_horizon_ms=99,
    )
    empty = empty_batch(read_header(batch))
    assert decoded(empty) == []
    header = read_header(empty)
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (9, 13, 4)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 1, 24)
    assert (header.partition_leader_epoch, header.compression, header.delete_horizon_ms) == (3, Compression.NONE, None)


@given(records=RECORDS, cut=st.integers(1, 50))
def test_records_that_are_cut_off_are_noticed(records: Sequence[Record], cut: int) -> None:
    data = data_of(encode_batch(records))
    with pytest.raises(InvalidRecord):
        scan_records(data[: max(0, len(data) - cut)], 0, len(records))


def test_timestamps_that_do_not_fit_64_bits_wrap_around() -> None:
    """A compressed batch may hold them unseen until its topic is compacted. Java's consumers read them so."""
    batch = bytearray(encode_batch([Record(timestamp=at, key=b"k") for at in (0, 2**63 - 1, -(2**63))]))
    HEADER.pack_into(batch, 0, *HEADER.unpack_from(batch)[:7], 10, 10, *HEADER.unpack_from(batch)[9:])
    header, data = read_header(batch), data_of(batch)
    records, _ = scan_records(data, 0, header.count)
    expected = [10, -(2**63) + 9, -(2**63) + 10]
    assert [record.timestamp for record in iter_records(batch, 0, header)] == expected
    for horizon in (None, 5, 2**62, 2**63 - 1):
        kept = batch_of_records(header, data, records, horizon)
        assert [record.timestamp for record in decoded(kept)] == expected
        assert read_header(kept).max_timestamp == 10
