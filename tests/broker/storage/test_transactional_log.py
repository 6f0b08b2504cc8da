"""Transactional data in a log: markers, the transaction index, and what read_committed consumers see (KIP-98)."""

from pathlib import Path

import pytest

from broker.storage.aborted_transactions import collect_aborted
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.producer_snapshots import SNAPSHOT_SUFFIX
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.logs import append, close_log, listing, open_log
from tests.support.transactional_logs import CommittedReader, append_marker, append_transactional

CONFIG = LogConfig(segment_bytes=1 << 20, index_interval_bytes=100, retention_ms=-1)
ONE, TWO = 1, 2


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "t-0", CONFIG)


def write(log: Log, value: bytes, producer_id: int = ONE, epoch: int = 0) -> int:
    return append_transactional(log, producer_id, (None, value), epoch=epoch)


def abort(log: Log, producer_id: int = ONE, **fields: int) -> int:
    return append_marker(log, producer_id, is_commit=False, **fields)


def commit(log: Log, producer_id: int = ONE, **fields: int) -> int:
    return append_marker(log, producer_id, is_commit=True, **fields)


def seen(log: Log, **fields: int) -> list[bytes | None]:
    return [record.value for record in CommittedReader(log, log.log_start_offset, **fields).read_to(stable(log))]


def stable(log: Log) -> int:
    unstable = log.producers.first_unstable_offset
    return log.log_end_offset if unstable is None else unstable


def replicate(log: Log) -> None:
    log.producers.advance_high_watermark(log.log_end_offset)


def listed(log: Log) -> list[tuple[int, int, int, int]]:
    return [entry[1:] for entry in collect_aborted(log.segments, 0, log.log_end_offset)]


def error_of(log: Log, **fields: int) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        commit(log, **fields)
    return caught.value.code


# Markers


def test_marker_of_an_older_coordinator_epoch_is_refused(log: Log) -> None:
    write(log, b"a")
    commit(log, coordinator_epoch=5)
    end = log.log_end_offset
    assert error_of(log, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.log_end_offset == end
    commit(log, producer_id=TWO, coordinator_epoch=4)  # the epochs of coordinators are checked per producer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_marker_of_an_older_producer_epoch_is_refused(log: Log, version: int) -> None:
    write(log, b"a", epoch=3)
    assert error_of(log, epoch=2, transaction_version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.producers.first_unstable_offset == 0


def test_marker_of_the_same_epoch_ends_a_transaction_only_before_transaction_version_2(log: Log) -> None:
    """KIP-890: from version 2 on, the coordinator raises the epoch before it writes the markers."""
    write(log, b"a", epoch=3)
    assert error_of(log, epoch=3, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    commit(log, epoch=4, transaction_version=2)
    write(log, b"b", epoch=4)
    commit(log, epoch=4, transaction_version=1)
    replicate(log)
    assert seen(log) == [b"a", b"b"]


def test_marker_of_transaction_version_2_may_be_repeated_while_no_transaction_is_open(log: Log) -> None:
    write(log, b"a", epoch=3)
    commit(log, epoch=4, transaction_version=2)
    commit(log, epoch=4, transaction_version=2)
    write(log, b"b", epoch=4)
    assert error_of(log, epoch=4, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_marker_without_data_aborts_nothing_and_fences_older_epochs(log: Log, tmp_path: Path) -> None:
    abort(log, epoch=4)
    replicate(log)
    assert (stable(log), listed(log)) == (1, [])
    assert listing(tmp_path / "t-0", ".txnindex") == []
    with pytest.raises(KafkaError) as caught:
        write(log, b"late", epoch=3)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


# The transaction index and the aborted lists


def test_aborted_records_are_listed_and_not_seen(log: Log) -> None:
    write(log, b"a")
    write(log, b"b", TWO)
    append(log, b"plain")
    abort(log)
    commit(log, TWO)
    replicate(log)
    assert listed(log) == [(ONE, 0, 3, 1)]
    assert seen(log) == seen(log, max_bytes=1) == [b"b", b"plain"]


def test_transaction_that_spans_segments_is_listed_for_each_of_them(log: Log) -> None:
    for number in range(6):
        write(log, b"%d" % number)
        log.roll()
    append(log, b"plain")
    abort(log)
    append(log, b"after")
    replicate(log)
    for offset in range(7):
        reader = CommittedReader(log, offset, max_bytes=1)
        assert [record.value for record in reader.read_to(stable(log))] == [b"plain", b"after"]


def test_list_ends_with_the_records_of_the_response(log: Log) -> None:
    """A list of all later aborted transactions would be longer than the records."""
    append(log, b"first")
    for _ in range(4):
        log.roll()
        for _ in range(50):
            write(log, b"x" * 100)
            abort(log)
    replicate(log)
    for offset in (0, 1, 101, 120, log.segments[2].base_offset - 1):
        reader = CommittedReader(log, offset, max_bytes=300)
        reader.read_to(stable(log))
        assert reader.listed_max <= 4


def test_follower_indexes_the_aborted_transactions_of_its_leader(log: Log, tmp_path: Path) -> None:
    follower = open_log(tmp_path / "follower-0", CONFIG)
    for number in range(3):
        write(log, b"a%d" % number)
        write(log, b"c%d" % number, TWO)
        abort(log)
        commit(log, TWO)
    segment = log.segments.active
    follower.append_as_follower(memoryview(bytearray(segment.file.read(0, segment.written))), 0, 0)
    replicate(log)
    replicate(follower)
    assert listed(follower) == listed(log)
    assert seen(follower) == seen(log) == [b"c0", b"c1", b"c2"]


# Restarts and truncations


@pytest.mark.parametrize("is_clean", [True, False])
async def test_restart_keeps_aborted_and_open_transactions(log: Log, tmp_path: Path, is_clean: bool) -> None:
    write(log, b"a")
    abort(log)
    log.roll()
    write(log, b"b")
    write(log, b"open", TWO)
    abort(log)
    before = listed(log)
    if is_clean:
        await close_log(log)
    log = open_log(tmp_path / "t-0", CONFIG, clean=is_clean)
    replicate(log)
    assert listed(log) == before == [(ONE, 0, 1, 2), (ONE, 2, 4, 3)]
    assert log.producers.first_unstable_offset == 3


async def test_truncation_to_a_snapshot_drops_the_aborted_transactions_after_it(log: Log, tmp_path: Path) -> None:
    """The producer states need no replay then, but the active segment's transaction index must be cut."""
    write(log, b"kept")
    commit(log)
    log.roll()
    write(log, b"cut")
    abort(log)
    assert listing(tmp_path / "t-0", SNAPSHOT_SUFFIX) == [f"{2:020d}.snapshot"]
    log.truncate_to(2)
    await log.durability.settle()
    assert listed(log) == []
    write(log, b"new")
    commit(log)
    replicate(log)
    assert seen(log) == [b"kept", b"new"]


async def test_entry_whose_marker_was_lost_in_a_power_cut_is_dropped(log: Log, tmp_path: Path) -> None:
    write(log, b"a")
    log.roll()
    await log.flush()
    size = log.segments.active.written
    abort(log)
    log.segments.active.file.truncate(size)
    log = open_log(tmp_path / "t-0", CONFIG, recovery_point=1)
    assert listed(log) == []
    assert log.producers.first_unstable_offset == 0


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", [b"", b"x", b"\xff" * 34])
async def test_damaged_transaction_index_is_rebuilt(log: Log, tmp_path: Path, is_clean: bool, damage: bytes) -> None:
    write(log, b"a")
    log.roll()
    abort(log)
    write(log, b"b")
    abort(log)
    before = listed(log)
    await close_log(log)
    path = tmp_path / "t-0" / f"{1:020d}.txnindex"
    content = path.read_bytes()
    path.write_bytes(content + damage if damage else content[:-10])
    log = open_log(tmp_path / "t-0", CONFIG, clean=is_clean, recovery_point=4)
    assert listed(log) == before
    assert path.read_bytes() == content


@pytest.mark.parametrize("is_clean", [True, False])
async def test_rebuilt_transaction_index_becomes_durable(log: Log, tmp_path: Path, is_clean: bool) -> None:
    """Found by the simulator: an index before the recovery point was rebuilt, not synced, and lost in a power cut."""
    for value in (b"a", b"b"):
        write(log, value)
        abort(log)
        log.roll()
    end_offset, before = log.log_end_offset, listed(log)
    await close_log(log)
    for snapshot in (tmp_path / "t-0").glob(f"*{SNAPSHOT_SUFFIX}"):
        snapshot.unlink()
    log = open_log(tmp_path / "t-0", CONFIG, clean=is_clean, recovery_point=end_offset)
    assert listed(log) == before
    assert [each.transaction_index.is_synced for each in log.segments] == [False, False, True]
    assert log.durability.recovery_point == 0
    await log.flush()
    assert all(each.transaction_index.is_synced for each in log.segments)
    assert log.durability.recovery_point == end_offset


async def test_truncation_moves_the_recovery_point_back_to_the_indexes_that_it_rebuilds(log: Log) -> None:
    for value in (b"a", b"b"):
        write(log, value)
        abort(log)
        log.roll()
    write(log, b"c")
    await log.flush()
    log.producers.snapshots.delete_all()
    log.truncate_to(4)
    assert log.durability.recovery_point == 0


async def test_new_transaction_index_is_durable_with_its_directory(log: Log) -> None:
    write(log, b"a")
    await log.flush()
    assert not log.segments.active.transaction_index.is_new
    abort(log)
    assert log.segments.active.transaction_index.is_new
    await log.flush()
    assert not log.segments.active.transaction_index.is_new


def test_restart_replays_many_aborted_transactions_with_one_write_for_each_segment(log: Log, tmp_path: Path) -> None:
    for _ in range(300):
        write(log, b"a")
        abort(log)
    before = listed(log)
    log = open_log(tmp_path / "t-0", CONFIG)
    assert listed(log) == before


# The last stable offset


def test_last_stable_offset_waits_for_the_earliest_of_many_unreplicated_markers(log: Log) -> None:
    for producer_id in range(20):
        write(log, b"x", producer_id)
    for producer_id in reversed(range(20)):
        commit(log, producer_id)
    log.producers.advance_high_watermark(39)
    assert log.producers.first_unstable_offset == 0
    log.producers.advance_high_watermark(40)
    assert log.producers.first_unstable_offset is None


def test_last_stable_offset_passes_replicated_markers_one_by_one(log: Log) -> None:
    for producer_id in range(3):
        write(log, b"x", producer_id)
    for producer_id in range(3):
        commit(log, producer_id)
    for high_watermark, unstable in ((3, 0), (4, 1), (5, 2), (6, None)):
        log.producers.advance_high_watermark(high_watermark)
        assert log.producers.first_unstable_offset == unstable


async def test_truncation_after_a_snapshot_keeps_transactions_unstable_until_their_markers_are_replicated(
    log: Log,
) -> None:
    write(log, b"x")
    commit(log)
    log.roll()
    append(log, b"cut")
    log.truncate_to(2)
    await log.durability.settle()
    assert log.producers.first_unstable_offset == 0
    replicate(log)
    assert log.producers.first_unstable_offset is None
