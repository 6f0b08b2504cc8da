"""The last stable offset (KIP-98) of logs with transactions that were replicated, recovered or truncated.

The producer states learn the high watermark however the partition moves it. Otherwise an ended transaction would hold
back the last stable offset permanently, and with it the cleaner.
"""

from pathlib import Path

import attrs
import pytest

from broker.replication.commit_state import READ_COMMITTED
from broker.replication.partition import Partition
from broker.storage.cleaner.log_to_clean import find_log_to_clean
from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode
from broker.wire.records import EndTransactionMarker, Record, encode_batch, encode_end_transaction_marker
from tests.support.logs import NOW_MS, close_log, open_log
from tests.support.partition_harness import LOCAL, A, B, Harness
from tests.support.requests import create_topic, fetch
from tests.support.running_node import running_node
from tests.support.wire_client import connected

PRODUCER = 7
OTHER = 8


def data(offset: int, producer_id: int = PRODUCER, *, sequence: int = 0, epoch: int = 0) -> bytes:
    record = Record(offset, NOW_MS, b"key", b"value")
    return encode_batch(
        [record],
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


def marker(offset: int, producer_id: int = PRODUCER, *, is_commit: bool = True, epoch: int = 0) -> bytes:
    return encode_end_transaction_marker(
        EndTransactionMarker(is_commit, coordinator_epoch=0),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=offset,
        leader_epoch=epoch,
    )


def plain(offset: int, epoch: int = 0) -> bytes:
    return encode_batch([Record(offset, NOW_MS, b"key", b"plain")], leader_epoch=epoch)


FINISHED = data(0) + marker(1) + plain(2)


def last_stable_offset(partition: Partition) -> int:
    assert partition.log is not None
    return partition.commit_state.last_stable_offset(partition.log)


def follow(harness: Harness, records: bytes, high_watermark: int) -> None:
    harness.follower.append_fetched(
        memoryview(records),
        leader_high_watermark=high_watermark,
        leader_log_start_offset=0,
        now_ms=NOW_MS,
    )


@pytest.fixture
def follower(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.become(leader=A)
    return harness


def stored(directory: Path, records: bytes) -> Path:
    """A partition's directory as Kafka leaves it, with only a segment."""
    partition = directory / "topic-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(records)
    return directory


def replace_segment(data_directory: Path, records: bytes) -> None:
    """Replace the topic's segment, so that the next start reads the new one."""
    (partition,) = data_directory.glob("**/topic-0")
    (partition / f"{0:020}.log").write_bytes(records)
    for path in data_directory.glob("**/.kafka_cleanshutdown"):
        path.unlink()


@pytest.mark.parametrize("is_commit", [True, False])
def test_follower_passes_a_finished_transaction_with_the_leaders_high_watermark(
    follower: Harness, is_commit: bool
) -> None:
    follow(follower, data(0) + marker(1, is_commit=is_commit) + plain(2), high_watermark=0)
    assert last_stable_offset(follower.partition) == 0
    follow(follower, b"", high_watermark=1)
    assert last_stable_offset(follower.partition) == 0
    follow(follower, b"", high_watermark=3)
    assert last_stable_offset(follower.partition) == 3


def test_follower_stops_at_the_first_of_several_transactions_that_has_not_ended(follower: Harness) -> None:
    records = data(0) + data(1, OTHER) + marker(2) + plain(3)
    follow(follower, records, high_watermark=4)
    assert last_stable_offset(follower.partition) == 1
    follow(follower, marker(4, OTHER), high_watermark=5)
    assert last_stable_offset(follower.partition) == 5


def test_leader_alone_passes_transactions_that_it_reads_from_its_disk(tmp_path: Path) -> None:
    """KIP-98: also without a checkpointed high watermark, as in a directory written by Kafka."""
    harness = Harness(stored(tmp_path, FINISHED))
    assert last_stable_offset(harness.partition) == 0
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    assert (harness.partition.high_watermark, last_stable_offset(harness.partition)) == (3, 3)
    harness.append()
    assert last_stable_offset(harness.partition) == 4


def test_leader_passes_a_transaction_when_its_followers_have_the_marker(tmp_path: Path) -> None:
    harness = Harness(stored(tmp_path, FINISHED))
    harness.become(epoch=1, version=1)
    harness.fetch(A, 3)
    harness.fetch(B, 1)
    assert (harness.partition.high_watermark, last_stable_offset(harness.partition)) == (1, 0)
    harness.fetch(B, 3)
    assert last_stable_offset(harness.partition) == 3


def test_opened_replica_counts_from_its_checkpointed_high_watermark(tmp_path: Path) -> None:
    first = Harness(stored(tmp_path, FINISHED)).partition
    first.close(ErrorCode.KAFKA_STORAGE_ERROR)
    log = open_log(tmp_path / "topic-0")
    partition = Partition(first.topic, first.topic_id, 0, log, first.context, first.tasks, high_watermark=3)
    assert last_stable_offset(partition) == 3


async def test_log_that_was_closed_cleanly_knows_running_transactions_from_its_snapshot(tmp_path: Path) -> None:
    log = open_log(stored(tmp_path, data(0)) / "topic-0")
    await close_log(log)
    harness = Harness(tmp_path)
    harness.become(leader=A)
    follow(harness, plain(1), high_watermark=2)
    assert last_stable_offset(harness.partition) == 0
    follow(harness, marker(2), high_watermark=3)
    assert last_stable_offset(harness.partition) == 3


def test_truncation_above_the_high_watermark_leaves_the_last_stable_offset(follower: Harness) -> None:
    """The transactions that are replayed after a truncation are replicated already."""
    follow(follower, FINISHED + plain(3), high_watermark=3)
    follower.follower.truncate(diverging_epoch=0, end_offset=3)
    assert (follower.partition.high_watermark, last_stable_offset(follower.partition)) == (3, 3)


def test_truncation_of_a_marker_makes_its_transaction_run_again(follower: Harness) -> None:
    follow(follower, FINISHED, high_watermark=3)
    follower.follower.truncate(diverging_epoch=0, end_offset=1)
    assert (follower.partition.high_watermark, last_stable_offset(follower.partition)) == (1, 0)


def test_replica_that_begins_again_elsewhere_has_no_transactions(follower: Harness) -> None:
    follow(follower, data(0), high_watermark=1)
    follower.follower.restart_at(10)
    assert last_stable_offset(follower.partition) == 10


def test_last_stable_offset_is_not_below_the_logs_start(follower: Harness) -> None:
    """DeleteRecords may remove the beginning of an open transaction."""
    follow(follower, data(0) + data(1, sequence=1) + plain(2), high_watermark=3)
    log = follower.partition.log
    assert log is not None
    log.advance_log_start_offset(2)
    assert last_stable_offset(follower.partition) == 2


def test_log_of_a_finished_transaction_can_be_cleaned(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    log = harness.partition.log
    assert log is not None
    log.configure(attrs.evolve(LogConfig(), cleanup_policy=("compact",)))
    harness.become(leader=A)
    follow(harness, FINISHED, high_watermark=3)
    log.roll()
    to_clean = find_log_to_clean(log, high_watermark=harness.partition.high_watermark, now_ms=NOW_MS)
    assert (to_clean.end, to_clean.dirty_bytes) == (3, len(FINISHED))


def test_finished_transaction_leaves_its_producer_without_one(follower: Harness) -> None:
    """As DescribeProducers shows (KIP-664)."""
    follow(follower, FINISHED, high_watermark=3)
    log = follower.partition.log
    assert log is not None
    producer = log.producers.get(PRODUCER)
    assert producer is not None
    assert (producer.current_txn_first_offset, producer.coordinator_epoch) == (-1, 0)


def test_replicas_of_one_log_agree_on_the_last_stable_offset(tmp_path: Path) -> None:
    (tmp_path / "leader").mkdir()
    leader, follower = Harness(stored(tmp_path / "leader", FINISHED)), Harness(tmp_path)
    leader.become(epoch=1, version=1)
    follower.become(leader=A, epoch=1, version=1)
    follow(follower, FINISHED, high_watermark=0)
    leader.fetch(A, 3)
    leader.fetch(B, 3)
    follow(follower, b"", high_watermark=leader.partition.high_watermark)
    assert last_stable_offset(leader.partition) == last_stable_offset(follower.partition) == 3


async def test_read_committed_consumer_reads_past_a_transaction_in_a_segment_of_kafkas(tmp_path: Path) -> None:
    async with running_node(tmp_path) as running, connected(running.port) as client:
        await create_topic(client)
    replace_segment(tmp_path / "data", FINISHED)
    async with running_node(tmp_path) as running, connected(running.port) as client:
        partition = await fetch(client, isolation_level=READ_COMMITTED)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    assert bytes(partition.records) == FINISHED
