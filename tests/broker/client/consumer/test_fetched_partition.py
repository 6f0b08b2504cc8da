"""Fetched bytes that are not read yet, and the buffer that holds them."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.errors import CorruptRecords, DeserializationFailed
from broker.client.consumer.fetched_partition import SLICE_BYTES, FetchBuffer, FetchedPartition, slices_of
from broker.client.consumer.positions import AssignedPartition, Leader, Position
from broker.client.consumer.record_reader import RecordReader
from broker.client.serializers import JsonSerializer
from broker.client.types import TopicPartition
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import EndTransactionMarker, Record, encode_batch, encode_end_transaction_marker

ORDERS, RETURNS = TopicPartition("orders", 0), TopicPartition("returns", 0)
NODE = 1


def batch(base_offset: int, count: int, *, epoch: int = 3, last_offset: int | None = None, size: int = 0) -> bytes:
    """A batch of records whose values are their offsets."""
    records = [Record(value=b"%d" % offset + b"." * size) for offset in range(base_offset, base_offset + count)]
    return encode_batch(records, base_offset=base_offset, leader_epoch=epoch, last_offset=last_offset)


def partition_at(offset: int, key: TopicPartition = ORDERS) -> AssignedPartition:
    assigned = AssignedPartition(key)
    assigned.update_leader(Leader(NODE, 3))
    assigned.seek(Position(offset))
    return assigned


def fetched(
    data: bytes,
    offset: int = 0,
    *,
    assigned: AssignedPartition | None = None,
    aborted: Sequence[AbortedTransaction] = (),
) -> FetchedPartition:
    return FetchedPartition(assigned or partition_at(offset), NODE, Position(offset), data, slices_of(data), aborted)


def read(source: FetchedPartition, limit: int = 100, *, read_committed: bool = False) -> list[int]:
    return [record.offset for record in source.read(limit, read_committed=read_committed, check_crc=True)]


def test_a_batch_that_the_size_limit_has_cut_is_left_for_the_next_fetch() -> None:
    source = fetched(batch(0, 3) + batch(3, 3)[:-1])
    assert source.end == Position(3, 3)
    assert read(source) == [0, 1, 2]


def test_bytes_without_a_whole_batch_have_no_slices() -> None:
    assert slices_of(batch(0, 1)[:-1]) == []
    assert slices_of(b"\0" * 100) == []


def test_offsets_that_do_not_grow_end_the_batches() -> None:
    assert slices_of(batch(5, 3) + batch(5, 3))[-1].end == Position(8, 3)


def test_records_are_read_without_being_taken_until_they_are() -> None:
    source = fetched(batch(0, 5))
    assert read(source, 2) == [0, 1]
    assert read(source, 2) == [0, 1]
    source.advance(2)
    assert source.position == Position(2, 3)
    assert read(source) == [2, 3, 4]
    source.advance(3)
    assert source.is_exhausted
    assert read(source) == []


def test_a_position_within_a_batch_skips_earlier_records() -> None:
    assert read(fetched(batch(0, 3) + batch(3, 3), offset=4)) == [4, 5]


def test_the_position_moves_over_offsets_without_records() -> None:
    source = fetched(batch(0, 2, last_offset=9))
    source.read(5, read_committed=False, check_crc=True)
    source.advance(2)
    assert source.position == Position(10, 3)


def test_batches_without_records_are_passed_over() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(True, 0), timestamp=0, producer_id=1, producer_epoch=0, base_offset=0, leader_epoch=3
    )
    source = fetched(marker)
    assert read(source) == []
    assert source.is_exhausted
    assert source.position == Position(1, 3)


def test_aborted_transactions_are_left_out_whatever_is_taken_first_kip_98() -> None:
    def transactional(offset: int, count: int, producer_id: int) -> bytes:
        records = [Record(value=b"%d" % each) for each in range(offset, offset + count)]
        return encode_batch(
            records, base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
        )

    def abort(offset: int, producer_id: int) -> bytes:
        return encode_end_transaction_marker(
            EndTransactionMarker(False, 0),
            timestamp=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_offset=offset,
        )

    large = [transactional(offset, 1, 7) for offset in range(2)]
    data = b"".join([*large, batch(2, 2), abort(4, 7), transactional(5, 2, 7)])
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    source = fetched(data, aborted=aborted)
    assert read(source, 1, read_committed=True) == [2]
    source.advance(1)
    assert read(source, read_committed=True) == [3, 5, 6]
    assert read(fetched(data, aborted=aborted), read_committed=False) == [0, 1, 2, 3, 5, 6]


def test_batch_outside_of_transactions_is_no_part_of_its_producers_aborted_transaction_kip_98() -> None:
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    for is_transactional, found in ((True, []), (False, [0, 1])):
        records, sent = [Record(value=b"a"), Record(value=b"b")], {"producer_id": 7, "producer_epoch": 0}
        data = encode_batch(records, base_sequence=0, transactional=is_transactional, **sent)
        assert read(fetched(data, aborted=aborted), read_committed=True) == found


def test_a_damaged_batch_is_an_error_once_the_records_before_it_are_taken() -> None:
    damaged = bytearray(batch(3, 3))
    damaged[-1] ^= 1
    source = fetched(batch(0, 3) + bytes(damaged))
    assert read(source) == [0, 1, 2]
    source.advance(3)
    assert source.position.offset == 3
    with pytest.raises(WireError):
        read(source)


def test_a_batch_with_its_records_in_disorder_does_not_move_the_position_back() -> None:
    records = [Record(offset=offset, value=b"") for offset in (5, 3, 4)]
    source = fetched(encode_batch(records, base_offset=3, last_offset=5, leader_epoch=3))
    offsets = []
    while found := read(source, 1):
        source.advance(1)
        offsets += found
        assert source.position.offset == 6
    assert source.position == Position(6, 3)


def test_bulk_readers_take_the_remaining_bytes() -> None:
    batches = [batch(offset, 10, size=SLICE_BYTES // 15) for offset in (0, 10, 20)]
    source = fetched(b"".join(batches))
    read(source, 12)
    source.advance(10)
    # The slice begins with the first two batches: the reader skips the records below the position.
    assert (bytes(source.encoded), source.position.offset) == (b"".join(batches), 10)
    source.advance_to(Position(20, 3))
    assert not source.is_exhausted
    assert read(source, 1) == [20]
    source.advance_to(source.end)
    assert source.is_exhausted


@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    size=st.sampled_from([0, 500, 20_000]),
    start=st.integers(0, 30),
    takes=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=100),
)
def test_every_record_is_read_once_however_much_is_taken_at_a_time(
    counts: list[int], size: int, start: int, takes: list[tuple[int, int]]
) -> None:
    data, offset = b"", 0
    for count in counts:
        data += batch(offset, count, size=size)
        offset += count
    source = fetched(data, offset=start)
    taken: list[int] = []
    for limit, wanted in [*takes, *[(1000, 1000)] * (len(counts) + 2)]:
        found = read(source, limit)
        count = min(wanted, len(found))
        source.advance(count)
        taken += found[:count]
        if taken:
            assert source.position.offset == taken[-1] + 1
    assert taken == list(range(start, offset))
    assert source.is_exhausted


def test_partitions_take_turns() -> None:
    buffer = FetchBuffer()
    orders, returns = partition_at(0), partition_at(0, RETURNS)
    for assigned, offset in ((orders, 0), (orders, 2), (returns, 0)):
        buffer.add(fetched(batch(offset, 2), offset, assigned=assigned))
    turns = []
    while (source := buffer.first()) is not None:
        turns.append(source.assigned.partition)
        source.advance_to(source.end)
        buffer.finish(source)
    assert turns == [ORDERS, RETURNS, ORDERS]
    assert buffer.size == 0


def test_paused_partitions_wait_and_stale_ones_are_dropped() -> None:
    buffer = FetchBuffer()
    orders, returns = partition_at(0), partition_at(0, RETURNS)
    for assigned in (orders, returns):
        buffer.add(fetched(batch(0, 2), assigned=assigned))
    orders.is_paused = True
    first = buffer.first()
    assert first is not None
    assert first.assigned is returns
    returns.seek(Position(1))
    assert buffer.first() is None
    assert not buffer.holds(RETURNS)
    assert buffer.size == buffer.size_from(NODE) == len(batch(0, 2))
    assert buffer.drop_paused() == [orders]
    assert buffer.size == 0


def reader_of(buffer: FetchBuffer, **deserializers: object) -> RecordReader:
    config = ConsumerConfig(bootstrap_servers=(("localhost", 9092),))
    return RecordReader(
        config,
        buffer,
        deserializers.get("key"),  # type: ignore[arg-type]
        deserializers.get("value"),  # type: ignore[arg-type]
        lambda: None,
    )


def test_a_run_is_taken_as_far_as_it_was_iterated() -> None:
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(batch(0, 5), assigned=assigned))
    reader = reader_of(buffer)
    assert reader.begin_run(100)
    assert [next(reader.run).offset for _ in range(2)] == [0, 1]
    reader.end_run()
    assert assigned.consumed == Position(2, 3)
    assert list(reader.run) == []
    assert [record.offset for record in reader.take(100)] == [2, 3, 4]


def test_the_record_that_is_worked_on_can_be_left_out() -> None:
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(batch(0, 5), assigned=assigned))
    reader = reader_of(buffer)
    reader.begin_run(100)
    for _ in range(2):
        next(reader.run)
    reader.cut_run()
    reader.end_run(unprocessed=1)
    assert assigned.consumed is not None
    assert assigned.consumed.offset == 1


def test_a_run_is_not_taken_after_a_seek() -> None:
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(batch(0, 5), assigned=assigned))
    reader = reader_of(buffer)
    reader.begin_run(100)
    next(reader.run)
    assigned.seek(Position(40))
    reader.end_run()
    assert assigned.consumed == Position(40)


def test_a_damaged_batch_fails_a_call_of_its_own() -> None:
    damaged = bytearray(batch(3, 3))
    damaged[-1] ^= 1
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(batch(0, 3) + bytes(damaged), assigned=assigned))
    reader = reader_of(buffer)
    assert len(reader.take(100)) == 3
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="offset 3 of orders-0") as raised:
            reader.take(100)
    assert raised.value.offset == 3
    assert assigned.consumed == Position(3, 3)


def test_a_damaged_batch_fails_an_arrow_call_of_its_own() -> None:
    damaged = bytearray(batch(3, 3))
    damaged[-1] ^= 1
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(batch(0, 3) + bytes(damaged), assigned=assigned))
    reader = reader_of(buffer)
    (rows,) = reader.take_arrow(100, ["offset"])
    assert rows.column("offset").to_pylist() == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="offset 3 of orders-0"):
            reader.take_arrow(100, ["offset"])
    assert assigned.consumed == Position(3, 3)


def offsets_of(batches: list[Any]) -> list[int]:
    return [offset for rows in batches for offset in rows.column("offset").to_pylist()]


def test_arrow_rows_after_records_begin_where_these_end_and_move_the_position_with_its_epoch() -> None:
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(batch(0, 5) + batch(5, 5), assigned=assigned))
    reader = reader_of(buffer)
    assert len(reader.take(2)) == 2
    assert offsets_of(reader.take_arrow(4, ["offset"])) == [2, 3, 4, 5]
    assert [record.offset for record in reader.take(1)] == [6]
    assert offsets_of(reader.take_arrow(100, ["offset"])) == [7, 8, 9]
    assert assigned.consumed is not None
    assert assigned.consumed.offset == 10
    assert buffer.size == 0


def test_a_value_that_cannot_be_deserialized_fails_a_call_of_its_own() -> None:
    values = [b"1", b'{"a": 2}', b"{", b"4"]
    buffer, assigned = FetchBuffer(), partition_at(0)
    buffer.add(fetched(encode_batch([Record(value=value) for value in values]), assigned=assigned))
    reader = reader_of(buffer, value=JsonSerializer())
    assert [record.value for record in reader.take(100)] == [1, {"a": 2}]
    with pytest.raises(DeserializationFailed, match="value of offset 2 of orders-0") as raised:
        reader.take(100)
    assert isinstance(raised.value.__cause__, ValueError)
    assert assigned.consumed is not None
    assert assigned.consumed.offset == 2
