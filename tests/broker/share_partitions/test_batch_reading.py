"""Reads of batches for share groups end where the request has enough records, however many bytes it allows."""

from pathlib import Path

from broker.share_partitions.acknowledgement import AcknowledgementBatch
from broker.share_partitions.acquisition import Acquisition, FetchedBatch
from broker.share_partitions.batch_reading import read_batches
from broker.share_partitions.settings import DeliverySettings
from broker.share_partitions.share_partition import SharePartition
from broker.wire.records import EndTransactionMarker, encode_end_transaction_marker
from tests.support.logs import NOW_MS, append, close_log, open_log

PRODUCER_ID = 7


async def test_read_ends_with_the_batch_that_has_the_last_wanted_record_and_passes_over_aborted_ones(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, b"0", b"1", b"2")
    append(log, b"3", producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0, transactional=True)
    marker = encode_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        timestamp=NOW_MS,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
    )
    log.append_as_coordinator(memoryview(bytearray(marker)), 0, NOW_MS, transaction_version=0)
    log.commit()
    for _ in range(20):
        append(log, b"one", b"two")

    def lasts(last_wanted: int, *, is_read_committed: bool = True) -> list[int]:
        read = read_batches(
            log,
            0,
            1 << 20,
            log.log_end_offset,
            last_wanted=last_wanted,
            min_one_batch=True,
            is_read_committed=is_read_committed,
        )
        return [batch.last_offset for batch in read.batches]

    assert lasts(2) == [2]
    assert lasts(3) == [2, 3, 4]
    assert lasts(3, is_read_committed=False) == [2, 3]
    assert lasts(7) == [2, 3, 4, 6, 8]
    assert lasts(1000)[-1] == log.log_end_offset - 1
    await close_log(log)


def test_last_wanted_counts_available_records_between_others_and_then_new_ones_within_the_limit() -> None:
    partition = SharePartition(DeliverySettings(record_locks_max=15), 0, 0)
    partition.acquire([FetchedBatch(0, 9)], 0, Acquisition("anna", 10), 0)
    released = [AcknowledgementBatch(2, 3, (2,)), AcknowledgementBatch(6, 7, (2,))]
    write = partition.acknowledge("anna", released, 0)
    assert write is not None
    partition.complete(write, is_stored=True)
    found = {count: partition.last_wanted(2, count) for count in (1, 2, 3, 4, 5, 9, 100)}
    assert found == {1: 2, 2: 3, 3: 6, 4: 7, 5: 10, 9: 14, 100: 14}
