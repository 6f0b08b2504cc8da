"""A leader's checks of a producer's batch (LogValidator's rules). The fast check must agree with the full decoder."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.wire.errors import WireError
from broker.wire.records import (
    NO_TIMESTAMP,
    Compression,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    Record,
    TimestampType,
    check_records,
    encode_batch,
    iter_records,
    read_header,
)

TIME = 1_700_000_000_000


def check(batch: bytes | bytearray, **options: Any) -> int:
    return check_records(batch, 0, read_header(batch), **options)


def shaped(sizes: list[int], step_ms: int) -> list[Record]:
    return [Record(index, TIME + index * step_ms, b"key", bytes(size)) for index, size in enumerate(sizes)]


# Long runs of one shape, in which the varints of offsets and times grow, between records of other shapes.
shapes = st.lists(
    st.tuples(
        st.none() | st.integers(0, 200),
        st.none() | st.sampled_from([0, 1, 63, 64, 100, 1000, 8191, 8192, 9000]),
        st.integers(0, 2),
        st.sampled_from([0, 1, 7, 64, -3, 5000]),
        st.integers(1, 150),
    ),
    min_size=1,
    max_size=6,
)


def records_of(runs: list[tuple[int | None, int | None, int, int, int]]) -> list[Record]:
    records: list[Record] = []
    timestamp = TIME
    for key_size, value_size, headers, step_ms, count in runs:
        for _ in range(count):
            timestamp += step_ms
            records.append(
                Record(
                    len(records),
                    timestamp,
                    None if key_size is None else b"k" * key_size,
                    None if value_size is None else b"v" * value_size,
                    (("h", b"x"),) * headers,
                )
            )
    return records


@given(shapes, st.sampled_from([Compression.NONE, Compression.LZ4]))
@example([(3, 100, 0, 1, 9000)], Compression.NONE)
def test_sound_batches_pass_and_their_greatest_timestamp_is_told(
    runs: list[tuple[int | None, int | None, int, int, int]], compression: Compression
) -> None:
    records = records_of(runs)
    batch = encode_batch(records, compression=compression)
    latest = max(record.timestamp for record in records)
    earliest = min(record.timestamp for record in records)
    assert check(batch) == latest
    assert check(batch, timestamp_range=(earliest, latest)) == latest
    with pytest.raises(InvalidTimestamp):
        check(batch, timestamp_range=(earliest + 1, latest))
    with pytest.raises(InvalidTimestamp):
        check(batch, timestamp_range=(earliest, latest - 1))
    if any(record.key is None for record in records):
        with pytest.raises(InvalidRecord, match="without key"):
            check(batch, require_keys=True)
    else:
        assert check(batch, require_keys=True) == latest


@given(shapes, st.data())
def test_a_mutated_batch_passes_just_when_a_reader_finds_it_sound(
    runs: list[tuple[int | None, int | None, int, int, int]], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records_of(runs)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(61, len(batch) - 1) | st.integers(61, min(len(batch) - 1, 75)))
        batch[at] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    try:
        found = list(iter_records(batch, 0, header))
    except WireError:
        found = None
    if found is None or [record.offset for record in found] != list(range(header.count)):
        with pytest.raises(InvalidRecord):
            check_records(batch, 0, header)
    else:
        latest = max(record.timestamp for record in found)
        if latest < 2**63:
            assert check_records(batch, 0, header) == max(latest, NO_TIMESTAMP)
        keyless = [index for index, record in enumerate(found) if record.key is None]
        if keyless:
            with pytest.raises(InvalidRecord) as caught:
                check_records(batch, 0, header, require_keys=True)
            if latest < 2**63:
                assert [error.batch_index for error in caught.value.record_errors] == keyless


@pytest.mark.parametrize(
    ("headers", "step_ms", "count"), [((), 0, 90), ((), 70, 90), ((("h", b"x"), ("n", None)), -3, 80)]
)
def test_each_byte_of_a_run_is_checked_as_a_reader_does(
    headers: tuple[tuple[str, bytes | None], ...], step_ms: int, count: int
) -> None:
    records = [Record(index, TIME + index * step_ms, b"k", b"v", headers) for index in range(count)]
    sound = encode_batch(records)
    header = read_header(sound)
    for at in range(61, len(sound)):
        for flip in (0x01, 0x02, 0x80):
            batch = bytearray(sound)
            batch[at] ^= flip
            try:
                expected = [(r.offset, r.timestamp) for r in iter_records(batch, 0, header)]
            except InvalidRecord:
                expected = []
            try:
                latest = check_records(batch, 0, header)
            except InvalidRecord:
                assert [offset for offset, _ in expected] != list(range(count)), at
            else:
                assert [offset for offset, _ in expected] == list(range(count)), at
                assert latest == max(timestamp for _, timestamp in expected)


@given(st.binary(max_size=200), st.integers(1, 5))
def test_garbage_for_records_is_invalid(body: bytes, count: int) -> None:
    batch = bytearray(encode_batch([], last_offset=count - 1))
    batch[57:61] = count.to_bytes(4, "big")
    batch[8:12] = (len(body) + 49).to_bytes(4, "big")
    batch += body
    try:
        check(batch)
    except InvalidRecord:
        return
    assert [record.offset for record in iter_records(batch, 0, read_header(batch))] == list(range(count))


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 3, 2**31 - 1])
def test_the_count_must_be_that_of_the_offsets(count: int) -> None:
    batch = bytearray(encode_batch(shaped([10, 10], 1)))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecord, match="count"):
        check(batch)


@pytest.mark.parametrize("delta", [-(2**31), -1, 0, 2])
def test_the_last_offset_must_be_that_of_the_count(delta: int) -> None:
    batch = bytearray(encode_batch(shaped([10, 10], 1)))
    batch[23:27] = delta.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecord, match="offset range"):
        check(batch)


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("offsets", [(1, 2), (0, 2), (1, 0), (0, 0)])
def test_offsets_count_up_from_the_base(compression: Compression, offsets: tuple[int, int]) -> None:
    records = [Record(offset, TIME, b"k", b"v") for offset in offsets]
    batch = encode_batch(records, base_offset=0, last_offset=1, compression=compression)
    with pytest.raises(InvalidRecord, match="offset delta"):
        check(batch)


def test_an_offset_out_of_order_within_a_long_run_is_found() -> None:
    records = shaped([100] * 500, 0)
    for wrong in (1, 63, 64, 255, 499):
        moved = [Record(r.offset ^ (r.offset == wrong), r.timestamp, r.key, r.value) for r in records]
        with pytest.raises(InvalidRecord, match="offset delta"):
            check(encode_batch(moved, base_offset=0, last_offset=499))


def test_records_at_fault_are_named() -> None:
    records = [Record(index, TIME, None if index in (3, 5) else b"k", b"v") for index in range(8)]
    with pytest.raises(InvalidRecord, match="due to 2 record errors in total") as caught:
        check(encode_batch(records), require_keys=True)
    assert [(error.batch_index, error.message) for error in caught.value.record_errors] == [
        (3, "Compacted topic cannot accept message without key"),
        (5, "Compacted topic cannot accept message without key"),
    ]
    assert not isinstance(caught.value, InvalidTimestamp)


def test_timestamps_at_fault_are_named() -> None:
    times = [TIME, NO_TIMESTAMP, TIME - 11, TIME + 11, TIME - 10, TIME + 10]
    batch = encode_batch([Record(timestamp=timestamp, key=b"k") for timestamp in times])
    with pytest.raises(
        InvalidTimestamp, match="One or more records have been rejected due to invalid timestamp"
    ) as caught:
        check(batch, timestamp_range=(TIME - 10, TIME + 10))
    assert [error.batch_index for error in caught.value.record_errors] == [2, 3]
    assert caught.value.record_errors[0].message == (
        f"Timestamp {TIME - 11} of message with offset 2 is out of range. "
        f"The timestamp should be within [{TIME - 10}, {TIME + 10}]"
    )


def test_records_without_a_timestamp_are_always_in_range() -> None:
    batch = encode_batch([Record(key=b"k"), Record(timestamp=TIME, key=b"k")])
    assert check(batch, timestamp_range=(TIME, TIME)) == TIME
    assert check(encode_batch([Record(key=b"k")]), timestamp_range=(TIME, TIME)) == NO_TIMESTAMP


def test_a_wrong_max_timestamp_is_left_to_the_caller_to_correct() -> None:
    assert check(encode_batch(shaped([1, 2], 5), max_timestamp=TIME + 100)) == TIME + 5


def test_producers_do_not_set_log_append_time() -> None:
    batch = encode_batch(shaped([1], 0), timestamp_type=TimestampType.LOG_APPEND_TIME)
    with pytest.raises(InvalidTimestamp) as caught:
        check(batch)
    assert "Producer should not set timestamp type to LogAppendTime" in caught.value.record_errors[0].message


def test_times_beyond_64_bits_are_invalid() -> None:
    batch = bytearray(encode_batch([Record(0, TIME), Record(1, TIME + 2**62)]))
    batch[27:35] = (2**63 - 1).to_bytes(8, "big")
    with pytest.raises(InvalidTimestamp):
        check(batch)


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_decompression_is_bounded(compression: Compression) -> None:
    batch = encode_batch([Record(value=bytes(1_000_000))], compression=compression)
    assert check(batch, max_size=1_100_000) == NO_TIMESTAMP
    with pytest.raises(CorruptBatch):
        check(batch, max_size=900_000)


@pytest.mark.parametrize("compression", list(Compression))
def test_size_of_records_in_compressed_batches_is_bounded(compression: Compression) -> None:
    """As in Kafka, `max.decompressed.message.bytes` is about each record, without the varint of its size."""
    batch = encode_batch([Record(value=bytes(size)) for size in (7, 1000, 7)], compression=compression)
    assert check(batch, max_record_size=1007) == NO_TIMESTAMP
    if compression is Compression.NONE:
        assert check(batch, max_record_size=10) == NO_TIMESTAMP
        return
    with pytest.raises(InvalidRecord, match=r"Invalid record size: 1007 exceeds the configured maximum .* of 1006"):
        check(batch, max_record_size=1006)


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_damaged_compression_is_corrupt(compression: Compression) -> None:
    batch = encode_batch(shaped([1000] * 10, 1), compression=compression)
    cut = bytearray(batch[:-6])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        check(cut)
