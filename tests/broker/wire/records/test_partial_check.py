"""The partial check of batches that are stored unchanged accepts valid ones, and detects all others."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.wire.errors import WireError
from broker.wire.records import Compression, PartialCheck, Record, check_records, encode_batch, read_header
from broker.wire.records.batch import HEADER, HEADER_SIZE, seal
from broker.wire.records.varint import read_zigzag

TIME = 1_700_000_000_000
COUNT_POSITION = 57
LAST_OFFSET_DELTA_POSITION = 23

records = st.builds(
    Record,
    timestamp=st.integers(TIME - 100, TIME + 10_000),
    key=st.none() | st.binary(max_size=70),
    value=st.none() | st.binary(max_size=200),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
)
# Runs of equal records, in which the offsets' varints grow, between other records.
runs = st.lists(st.tuples(records, st.integers(1, 150)), min_size=1, max_size=5).map(
    lambda runs: [record for record, count in runs for _ in range(count)]
)


def passes(batch: bytes | bytearray, check: PartialCheck | None = None) -> bool:
    """The result of the partial check, which is the same for the batch alone and in a buffer between other batches."""
    header = read_header(batch)
    check = check or PartialCheck()
    alone = check.accepts(memoryview(bytes(batch)), header)
    buffer = bytearray(batch) * 3
    assert check.accepts(memoryview(buffer)[len(batch) : 2 * len(batch)], header) == alone
    return alone


def is_sound(batch: bytes | bytearray) -> bool:
    """True if the records are valid, and the header has the greatest of their timestamps."""
    header = read_header(batch)
    try:
        return check_records(batch, 0, header) == header.max_timestamp
    except WireError:
        return False


def with_max_timestamp(batch: bytes, timestamp: int) -> bytearray:
    """The batch with another max timestamp in its header, and a correct checksum."""
    fields = list(HEADER.unpack_from(batch))
    fields[8] = timestamp
    changed = bytearray(HEADER.pack(*fields) + batch[HEADER_SIZE:])
    seal(changed, 0, len(changed))
    return changed


def with_count(batch: bytes, count: int) -> bytearray:
    """The batch with a different number of records in its header, and a correct checksum."""
    changed = bytearray(batch)
    changed[COUNT_POSITION : COUNT_POSITION + 4] = count.to_bytes(4)
    changed[LAST_OFFSET_DELTA_POSITION : LAST_OFFSET_DELTA_POSITION + 4] = (count - 1).to_bytes(4)
    seal(changed, 0, len(changed))
    return changed


def with_records(batch: bytes, data: bytes) -> bytearray:
    """The batch with other bytes in place of its records."""
    fields = list(HEADER.unpack_from(batch))
    fields[1] += HEADER_SIZE + len(data) - len(batch)
    changed = bytearray(HEADER.pack(*fields) + data)
    seal(changed, 0, len(changed))
    return changed


@given(st.lists(records, min_size=1, max_size=20) | runs, st.sampled_from(Compression))
@example([Record(timestamp=TIME, value=bytes(100))] * 9000, Compression.NONE)
def test_sound_batches_pass_whatever_their_compression(given: list[Record], compression: Compression) -> None:
    """Compressed batches of very many tiny records may fail the partial check, and are then decoded completely."""
    batch = encode_batch(given, compression=compression)
    assert is_sound(batch)
    if compression is Compression.NONE or len(given) <= len(batch) - HEADER_SIZE:
        assert passes(batch)


@given(records, st.data())
def test_a_single_record_passes_just_when_a_full_check_finds_it_sound(record: Record, data: st.DataObject) -> None:
    batch = bytearray(encode_batch([record]))
    check = PartialCheck()
    assert passes(batch, check)  # and remembers the batch
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    assert passes(batch, check) == passes(batch) == is_sound(batch)


@pytest.mark.parametrize("size", [1, 100])
def test_a_single_record_with_another_timestamp_than_the_header_does_not_pass(size: int) -> None:
    batch = encode_batch([Record(timestamp=TIME, value=bytes(size))])
    timestamp_at = HEADER_SIZE + (3 if batch[HEADER_SIZE] >= 0x80 else 2)
    for delta in (b"\x01", b"\x02", b"\x7f"):
        data = batch[HEADER_SIZE:timestamp_at] + delta + batch[timestamp_at + 1 :]
        assert not is_sound(with_records(batch, data))
        assert not passes(with_records(batch, data))


def test_a_remembered_record_of_another_size_does_not_pass() -> None:
    check = PartialCheck()
    batch = encode_batch([Record(timestamp=TIME, value=bytes(100))])
    assert passes(batch, check)
    assert not passes(with_records(batch, batch[HEADER_SIZE:] + b"\0"), check)
    assert not passes(with_records(batch, batch[HEADER_SIZE:-1]), check)
    assert not passes(with_records(batch, batch[HEADER_SIZE:-1] + b"\x02"), check)


@given(st.lists(records, min_size=2, max_size=20) | runs, st.integers(1, 2**31 - 1))
@example([Record(timestamp=TIME, value=bytes(100))] * 300, 299)
@example([Record(timestamp=TIME, value=bytes(100))] * 300, 301)
@example([Record(timestamp=TIME, value=b"x")], 2**31 - 1)
def test_another_number_of_records_does_not_pass(given: list[Record], count: int) -> None:
    if count != len(given):
        assert not passes(with_count(encode_batch(given), count))


@given(st.binary(max_size=300), st.integers(1, 5))
def test_junk_does_not_pass(junk: bytes, count: int) -> None:
    batch = with_records(with_count(encode_batch([Record(timestamp=TIME, value=b"x")] * count), count), junk)
    if not is_sound(batch) and count <= 3:
        assert not passes(batch)


@given(runs, st.integers(1, 50))
def test_a_batch_that_ends_early_does_not_pass(given: list[Record], missing: int) -> None:
    batch = encode_batch(given)
    kept = batch[HEADER_SIZE : max(HEADER_SIZE, len(batch) - missing)]
    assert not passes(with_records(batch, kept))


def test_records_that_all_have_the_same_offset_delta_do_not_pass() -> None:
    """As from a client that does not count offsets."""
    one = encode_batch([Record(timestamp=TIME, value=b"x")])[HEADER_SIZE:]
    for count in (2, 3, 100):
        batch = with_records(with_count(encode_batch([Record(timestamp=TIME, value=b"x")]), count), one * count)
        assert not passes(batch)


@pytest.mark.parametrize(("index", "position"), [(0, 3), (0, 4), (1, 3), (1, 4), (199, 3), (199, 5)])
def test_a_wrong_offset_delta_or_key_in_the_first_records_or_the_last_does_not_pass(index: int, position: int) -> None:
    batch = bytearray(encode_batch([Record(timestamp=TIME, key=b"k", value=bytes(30))] * 200))
    size = (len(batch) - HEADER_SIZE - (200 - 64)) // 200
    at = HEADER_SIZE + index * size + max(0, index - 64)
    batch[at + position] ^= 0x02
    assert not is_sound(batch)
    assert not passes(batch)


@pytest.mark.parametrize("sizes", [[20], [20, 30], list(range(10, 50))])
@pytest.mark.parametrize("index", [2, 63, 64, 150, 198])
def test_a_wrong_length_anywhere_does_not_pass(sizes: list[int], index: int) -> None:
    """This includes runs of records of one size, whose lengths are not checked one by one."""
    records = [Record(timestamp=TIME, value=bytes(sizes[at % len(sizes)])) for at in range(200)]
    batch = encode_batch(records)
    at = len(encode_batch(records[:index]))
    for change in (2, -2, 1):
        changed = bytearray(batch)
        changed[at] += change
        assert not passes(changed), change


@pytest.mark.parametrize("compression", [each for each in Compression if each is not Compression.NONE])
def test_compressed_junk_and_impossible_counts_do_not_pass(compression: Compression) -> None:
    batch = encode_batch([Record(timestamp=TIME, value=b"value")] * 10, compression=compression)
    assert passes(batch)
    assert not passes(with_count(batch, 2**31 - 1))
    assert not passes(with_count(batch, len(batch)))
    assert not passes(with_records(batch, b"\xff" * 40))
    assert not passes(with_records(batch, b""))


@given(st.binary(max_size=60), st.integers(1, 7), st.integers(1, 2**31 - 1))
def test_no_bytes_raise(junk: bytes, attributes: int, count: int) -> None:
    batch = with_records(with_count(encode_batch([Record(timestamp=TIME)]), count), junk)
    batch[22] = attributes
    passes(batch)


@pytest.mark.parametrize("size", [100, 101])  # an odd and an even number of bytes from record to record
@pytest.mark.parametrize("changed", [1, 2, 3, 70, 71, 120, 121, 298])
def test_length_of_any_record_in_a_run_is_compared(size: int, changed: int) -> None:
    batch = encode_batch([Record(timestamp=TIME, value=bytes(size))] * 300)
    at = HEADER_SIZE
    for _ in range(changed):
        length, at = read_zigzag(batch, at)
        at += length >> 1
    data = bytearray(batch[HEADER_SIZE:])
    data[at - HEADER_SIZE] ^= 2  # one byte more or less
    assert passes(batch)
    assert not passes(with_records(batch, data))


@given(records, st.sampled_from((-1, 0, TIME - 1)) | st.integers(-(2**63), 2**63 - 1))
def test_single_record_passes_only_with_its_timestamp_in_the_header(record: Record, latest: int) -> None:
    assert passes(with_max_timestamp(encode_batch([record]), latest)) == (latest == record.timestamp)


@given(st.lists(records, min_size=2, max_size=3), st.integers(1, 2**40))
def test_header_after_all_of_three_records_does_not_pass(given: list[Record], by: int) -> None:
    batch = encode_batch(given)
    assert not passes(with_max_timestamp(batch, read_header(batch).max_timestamp + by))


@given(st.lists(records, min_size=2, max_size=20), st.sampled_from(Compression))
def test_unset_max_timestamp_does_not_pass(given: list[Record], compression: Compression) -> None:
    """As from clients that leave it -1 or 0."""
    batch = encode_batch(given, compression=compression)
    assert not passes(with_max_timestamp(batch, -1))
    assert not passes(with_max_timestamp(batch, 0))
    assert not passes(with_max_timestamp(batch, read_header(batch).base_timestamp - 1))


@given(st.lists(records, min_size=2, max_size=20), st.integers(0, 1_000))
def test_header_before_one_of_the_completely_checked_records_does_not_pass(given: list[Record], by: int) -> None:
    checked = max(given[at].timestamp for at in (0, 1, -1))
    batch = encode_batch(given)
    assert passes(with_max_timestamp(batch, checked))
    assert not passes(with_max_timestamp(batch, checked - by - 1))


def test_records_without_timestamps_pass() -> None:
    for count in (1, 2, 3, 50):
        assert passes(encode_batch([Record(value=b"value")] * count))
