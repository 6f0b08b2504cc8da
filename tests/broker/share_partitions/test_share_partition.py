"""Deliveries, acknowledgements and refusals of a share-partition (KIP-932, KIP-1206, KIP-1222), by examples."""

import sys

import attrs
import pytest

from broker.coordinator.share.share_state import StateBatch
from broker.share_partitions.acknowledgement import AcknowledgementBatch
from broker.share_partitions.acquisition import AcquiredRecords, Acquisition, FetchedBatch
from broker.share_partitions.in_flight import RecordState
from broker.share_partitions.settings import DeliverySettings
from broker.share_partitions.share_partition import InvalidState, SharePartition
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import ShareAcquireMode

TENS = [FetchedBatch(first, first + 9) for first in range(0, 100, 10)]
EXACT = ShareAcquireMode.RECORD_LIMIT


def acquire(
    partition: SharePartition,
    *,
    fetched: list[FetchedBatch] = TENS,
    member_id: str = "anna",
    records_max: int = 500,
    batch_size: int = 500,
    mode: ShareAcquireMode = ShareAcquireMode.BATCH_OPTIMIZED,
    now_ms: float = 0,
) -> list[tuple[int, ...]]:
    offset = partition.next_fetch_offset()
    found = [batch for batch in fetched if batch.last_offset >= offset]
    acquisition = Acquisition(member_id, records_max, batch_size, mode)
    partition.acquire(found, offset, acquisition, now_ms)
    return [tuple(each) for each in acquisition.acquired]


def acknowledge(partition: SharePartition, first: int, last: int, *types: int, member_id: str = "anna") -> None:
    write = partition.acknowledge(member_id, [AcknowledgementBatch(first, last, types)], 0)
    if write is not None:
        partition.complete(write, is_stored=True)


def test_batch_optimized_mode_acquires_whole_batches_in_parts_of_the_batch_size() -> None:
    partition = SharePartition(DeliverySettings(), 0, 0)
    assert acquire(partition, records_max=25, batch_size=20) == [(0, 19, 1), (20, 29, 1)]


def test_kip_1206_record_limit_mode_acquires_no_more_than_the_limit() -> None:
    partition = SharePartition(DeliverySettings(), 0, 0)
    assert acquire(partition, records_max=5, mode=EXACT) == [(0, 4, 1)]
    assert acquire(partition, records_max=12, mode=EXACT, member_id="ben") == [(5, 16, 1)]
    acknowledge(partition, 0, 4, 2)
    assert acquire(partition, records_max=3, mode=EXACT) == [(0, 2, 2)]


def test_records_in_flight_are_limited_but_released_ones_are_delivered_again() -> None:
    partition = SharePartition(DeliverySettings(record_locks_max=25), 0, 0)
    assert acquire(partition) == [(0, 29, 1)]
    assert not partition.can_acquire(partition.next_fetch_offset())
    acknowledge(partition, 12, 13, 2)
    assert partition.can_acquire(partition.next_fetch_offset())
    assert acquire(partition, member_id="ben") == [(12, 13, 2)]


def test_aborted_and_compacted_records_are_not_delivered() -> None:
    log = [FetchedBatch(0, 4), FetchedBatch(5, 9, is_aborted=True), FetchedBatch(20, 24)]
    partition = SharePartition(DeliverySettings(), 0, 0)
    assert acquire(partition, fetched=log) == [(0, 4, 1), (20, 24, 1)]
    acknowledge(partition, 0, 4, 1)
    assert partition.start_offset == 20


def test_records_that_fail_again_and_again_are_delivered_in_smaller_parts_and_then_archived() -> None:
    partition = SharePartition(DeliverySettings(delivery_count_limit=5), 0, 0)
    log, sizes = [FetchedBatch(0, 15)], []
    while acquired := acquire(partition, fetched=log):
        first, last, delivery_count = acquired[0]
        sizes.append((first, last - first + 1, delivery_count))
        acknowledge(partition, first, last, 2)
    assert sizes[:5] == [(0, 16, 1), (0, 16, 2), (0, 16, 3), (0, 8, 4), (0, 1, 5)]
    assert all(count == 1 for _, count, deliveries in sizes if deliveries == 5)
    assert partition.start_offset == partition.end_offset == 16


def test_scattered_records_that_failed_often_share_a_delivery_up_to_half_of_their_batch() -> None:
    partition = SharePartition(DeliverySettings(delivery_count_limit=5), 0, 0)
    log = [FetchedBatch(0, 15), FetchedBatch(16, 20)]
    for _ in range(2):
        acquire(partition, fetched=log[:1])
        acknowledge(partition, 0, 15, 2)
    acquire(partition, fetched=log[:1])
    acknowledge(partition, 0, 15, *[2, 2, 1, 1] * 4)
    assert acquire(partition, fetched=log) == [(0, 1, 4), (4, 5, 4), (8, 9, 4), (12, 13, 4)]
    acknowledge(partition, 0, 1, 2)
    assert acquire(partition, fetched=log) == [(0, 0, 5)], "a record is alone in its last delivery"
    assert acquire(partition, fetched=log) == [(1, 1, 5)]
    assert acquire(partition, fetched=log) == [(16, 20, 1)]


def test_stored_state_is_loaded_with_gaps_as_available_records() -> None:
    batches = [StateBatch(10, 14, RecordState.ACKNOWLEDGED, 1), StateBatch(20, 21, RecordState.AVAILABLE, 3)]
    partition = SharePartition(DeliverySettings(delivery_count_limit=10), 7, 5, batches)
    assert (partition.start_offset, partition.end_offset, partition.delivery_complete_count) == (5, 22, 5)
    assert acquire(partition, records_max=12) == [(5, 9, 1), (15, 19, 1), (20, 21, 4)]
    with pytest.raises(InvalidState):
        SharePartition(DeliverySettings(), 0, 5, [StateBatch(4, 6, 0, 1)])


def test_kip_1222_renewed_lock_is_held_for_another_lock_duration() -> None:
    partition = SharePartition(DeliverySettings(record_lock_duration_ms=1000), 0, 0)
    acquire(partition)
    partition.acknowledge("anna", [AcknowledgementBatch(10, 19, [4])], 600)
    write = partition.expire_locks(1000)
    assert write is not None
    assert [each[:2] for each in write.batches] == [(0, 9), (20, 99)]
    assert partition.next_lock_expiry_ms == 1600


def test_failed_write_gives_records_back_to_their_member_until_the_lock_expires() -> None:
    partition = SharePartition(DeliverySettings(record_lock_duration_ms=1000), 0, 0)
    acquire(partition)
    write = partition.acknowledge("anna", [AcknowledgementBatch(0, 99, [1])], 500)
    assert write is not None
    assert partition.expire_locks(1500) is None
    partition.complete(write, is_stored=False)
    assert partition.next_lock_expiry_ms == 1000
    assert partition.expire_locks(1500) is not None
    assert acquire(partition, member_id="ben", now_ms=1500)[0] == AcquiredRecords(0, 99, 2)


@pytest.mark.parametrize(
    ("batch", "member_id", "code"),
    [
        (AcknowledgementBatch(0, 9, [5]), "anna", ErrorCode.INVALID_REQUEST),
        (AcknowledgementBatch(0, 100, [1]), "anna", ErrorCode.INVALID_REQUEST),
        (AcknowledgementBatch(0, 9, [1]), "ben", ErrorCode.INVALID_RECORD_STATE),
        (AcknowledgementBatch(45, 55, [1]), "anna", ErrorCode.INVALID_RECORD_STATE),
        (AcknowledgementBatch(0, 9, [4]), "anna", ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_refused_acknowledgement_leaves_all_records_with_their_member(
    batch: AcknowledgementBatch, member_id: str, code: ErrorCode
) -> None:
    partition = SharePartition(attrs.evolve(DeliverySettings(), allows_renewal=False), 0, 0)
    acquire(partition)
    acknowledge(partition, 50, 59, 2)
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge(member_id, [AcknowledgementBatch(20, 29, [3]), batch], 0)
    assert refused.value.code is code
    acknowledge(partition, 20, 29, 1)


def test_acknowledgement_while_nothing_is_in_flight_is_refused() -> None:
    partition = SharePartition(DeliverySettings(), 0, 100)
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge("anna", [AcknowledgementBatch(100, 100, [1])], 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_acknowledgement_of_deleted_records_is_accepted() -> None:
    partition = SharePartition(DeliverySettings(), 0, 0)
    acquire(partition)
    assert partition.move_log_start(15)
    acknowledge(partition, 0, 9, 1)
    acknowledge(partition, 10, 19, *[1] * 10)
    assert (partition.start_offset, partition.in_flight_count) == (20, 80)


def scattered(range_count: int) -> SharePartition:
    """A share-partition with so many ranges, of which each other one is acknowledged. All but the last are held."""
    partition = SharePartition(DeliverySettings(record_locks_max=10_000), 0, 0)
    acquire(partition, fetched=[FetchedBatch(0, range_count - 1)], records_max=10_000)
    for offset in range(1, range_count, 2):
        acknowledge(partition, offset, offset, 1)
    acknowledge(partition, range_count - 2, range_count - 2, 2)
    return partition


def calls_of_questions(partition: SharePartition) -> int:
    """The number of calls within the questions that each fetch and each write asks."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        answers = partition.next_fetch_offset(), partition.delivery_complete_count
    finally:
        sys.setprofile(None)
    assert answers == (partition.end_offset - 2, partition.end_offset // 2)
    return calls


def test_fetches_and_writes_cost_the_same_however_many_ranges_are_in_flight() -> None:
    few, many = scattered(20), scattered(2_000)
    assert many.batch_count == 2_000
    assert calls_of_questions(many) == calls_of_questions(few)
