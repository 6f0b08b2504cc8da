"""A follower's log has the same bytes as the leader's log, and truncates records that the leader lacks."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Buffer, File, RealDisk
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import (
    NOW_MS,
    FailingDisk,
    append,
    batch,
    listing,
    open_log,
    read_all,
    slice_bytes,
    values,
)

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=80, retention_ms=-1)


@pytest.fixture
def leader(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "leader-0")
    for number in range(6):
        append(log, b"a%d" % number, b"b%d" % number, leader_epoch=number // 2)
    return log


@pytest.fixture
def follower(tmp_path: Path) -> Log:
    return open_log(tmp_path / "follower-0", SMALL)


def fetched(leader: Log, offset: int, max_bytes: int = 1 << 20) -> bytes:
    return slice_bytes(leader.read(offset, max_bytes, upper_bound=1 << 62, min_one_batch=True))


def follow(follower: Log, records: bytes, leader_epoch: int = 100) -> None:
    follower.append_as_follower(memoryview(records), leader_epoch, NOW_MS)


def catch_up(follower: Log, leader: Log, max_bytes: int = 1 << 20) -> None:
    while follower.log_end_offset < leader.log_end_offset:
        follow(follower, fetched(leader, follower.log_end_offset, max_bytes))


def content(log: Log) -> bytes:
    return b"".join(segment.file.read(0, segment.written) for segment in log.segments)


def test_follower_has_the_same_bytes_as_the_leader(leader: Log, follower: Log, tmp_path: Path) -> None:
    catch_up(follower, leader)
    assert content(follower) == content(leader)
    assert follower.epochs.entries == leader.epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert follower.readable_end_offset == follower.log_end_offset == 12
    assert len(follower.segments) > 1
    assert values(open_log(tmp_path / "follower-0", SMALL)) == values(leader)


def test_incomplete_last_batch_is_left_for_the_next_fetch(leader: Log, follower: Log) -> None:
    catch_up(follower, leader, max_bytes=130)
    assert content(follower) == content(leader)


class CountingDisk(RealDisk):
    """Records the number of buffers in each write to a segment."""

    def __init__(self) -> None:
        self.writes: list[int] = []

    def open(self, path: str, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        return CountingFile(self, file) if path.endswith(".log") else file


class CountingFile:
    def __init__(self, disk: CountingDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.writes.append(len(buffers))
        self._file.write(offset, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_one_response_is_one_write(leader: Log, tmp_path: Path) -> None:
    disk = CountingDisk()
    follow(open_log(tmp_path / "follower-0", disk=disk), fetched(leader, 0))
    assert disk.writes == [6]


def test_follower_has_the_producer_states_of_the_leader(leader: Log, follower: Log) -> None:
    for sequence in range(3):
        append(leader, b"x", producer_id=7, producer_epoch=1, base_sequence=sequence, leader_epoch=2)
    catch_up(follower, leader)
    duplicate = follower.append(
        batch(b"x", producer_id=7, producer_epoch=1, base_sequence=1), leader_epoch=3, now_ms=NOW_MS
    )
    assert duplicate.duplicate
    assert duplicate.first_offset == 13
    assert append(follower, b"x", producer_id=7, producer_epoch=1, base_sequence=3, leader_epoch=3) == 15


def test_markers_end_transactions_at_the_follower(leader: Log, follower: Log) -> None:
    append(leader, b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    catch_up(follower, leader)
    assert follower.producers.first_unstable_offset == 12


@pytest.mark.parametrize("at", [21, 40, 61, -1])
def test_damaged_batches_are_refused_and_leave_the_log_as_it_was(leader: Log, follower: Log, at: int) -> None:
    records = bytearray(fetched(leader, 0))
    records[at] ^= 1
    with pytest.raises(KafkaError) as refused:
        follow(follower, bytes(records))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (follower.log_end_offset, follower.size_bytes, follower.epochs.entries) == (0, 0, [])
    catch_up(follower, leader)


@pytest.mark.parametrize("offset", [2, 10])
def test_batches_that_do_not_continue_the_log_are_refused(leader: Log, follower: Log, offset: int) -> None:
    follow(follower, fetched(leader, 0)[: len(fetched(leader, 0)) // 2])
    assert follower.log_end_offset == 6
    with pytest.raises(KafkaError) as refused:
        follow(follower, fetched(leader, offset))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 6


def test_repeated_gap_is_accepted(leader: Log, follower: Log) -> None:
    """The leader's log was compacted earlier, so the gap is permanent. After that, further gaps are accepted."""
    for _ in range(2):
        with pytest.raises(KafkaError):
            follow(follower, fetched(leader, 4))
        with pytest.raises(KafkaError):
            follow(follower, fetched(leader, 2))
    follow(follower, fetched(leader, 2))
    assert [record.offset for record in read_all(follower)] == list(range(2, 12))
    assert follower.cleaned_offset == 0


def test_compacted_log_accepts_gaps(leader: Log, tmp_path: Path) -> None:
    follower = open_log(tmp_path / "follower-0", LogConfig(cleanup_policy=("compact",)))
    follow(follower, fetched(leader, 4))
    assert [record.offset for record in read_all(follower)] == list(range(4, 12))


def test_batches_of_later_epochs_than_the_leaders_are_not_appended(leader: Log, follower: Log) -> None:
    """The leader became a follower while it sent the response, and the sent range of its file was overwritten."""
    follow(follower, fetched(leader, 0), leader_epoch=1)
    assert follower.log_end_offset == 8
    assert follower.epochs.latest_epoch == 1


def test_empty_log_may_begin_within_a_batch(leader: Log, follower: Log) -> None:
    leader.advance_log_start_offset(5)
    follower.truncate_fully_and_start_at(5)
    trio.run(follower.durability.settle)
    follow(follower, fetched(leader, 5))
    follower.advance_log_start_offset(5)
    assert (follower.log_start_offset, follower.log_end_offset) == (5, 12)
    assert values(follower) == values(leader)


def test_failed_disk_fails_the_log(leader: Log, tmp_path: Path) -> None:
    disk = FailingDisk()
    follower = open_log(tmp_path / "follower-0", disk=disk)
    disk.error = OSError("no")
    with pytest.raises(OSError, match="no"):
        follow(follower, fetched(leader, 0))
    with pytest.raises(KafkaError) as refused:
        follow(follower, fetched(leader, 0))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


# Truncation


def test_truncated_log_refuses_appends_until_it_is_settled(leader: Log, follower: Log) -> None:
    catch_up(follower, leader)
    assert follower.truncate_to(6)
    assert follower.durability.is_unsettled
    for attempt in (lambda: follow(follower, fetched(leader, 6)), lambda: append(follower, b"x", leader_epoch=9)):
        with pytest.raises(KafkaError) as refused:
            attempt()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    trio.run(follower.durability.settle)
    catch_up(follower, leader)
    assert content(follower) == content(leader)


async def test_truncation_during_settling_is_settled_too(leader: Log, tmp_path: Path) -> None:
    disk = FaultyDisk()
    follower = open_log(tmp_path / "follower-0", SMALL, disk=disk)
    catch_up(follower, leader)
    follower.truncate_to(6)
    disk.held = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower.durability.settle)
        await trio.testing.wait_all_tasks_blocked()
        follower.truncate_to(2)
        disk.held.set()
    assert not follower.durability.is_unsettled
    assert follower.log_end_offset == 2


def test_truncation_at_the_log_end_only_drops_an_epoch_without_records(leader: Log, follower: Log) -> None:
    catch_up(follower, leader)
    follower.epochs.assign(9, 12)  # it was a leader that wrote no records
    assert not follower.truncate_to(12)
    assert not follower.durability.is_unsettled
    assert follower.epochs.latest_epoch == 2


def test_truncation_to_a_segment_deletes_the_later_segments(leader: Log, follower: Log, tmp_path: Path) -> None:
    catch_up(follower, leader)
    before = listing(tmp_path / "follower-0", ".log")
    assert len(before) > 1
    follower.truncate_to(follower.segments[1].base_offset - 1)
    assert listing(tmp_path / "follower-0", ".log") == before[:1]


@settings(max_examples=40)
@given(
    lives=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.booleans()), min_size=1, max_size=8),
    max_bytes=st.integers(1, 600),
)
def test_diverged_logs_become_equal_again(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[bool, int, bool]], max_bytes: int
) -> None:
    """Two replicas lead alternately. In some epochs the other one follows, in others it is down."""
    root = tmp_path_factory.mktemp("parted")
    logs = [open_log(root / "a-0", SMALL), open_log(root / "b-0", SMALL)]
    numbers = itertools.count()
    for epoch, (second_leads, count, is_followed) in enumerate([*lives, (True, 1, True)]):
        leader, follower = logs[second_leads], logs[not second_leads]
        leader.epochs.assign(epoch, leader.log_end_offset)
        for _ in range(count):
            number = next(numbers)
            append(leader, b"%d" % number, leader_epoch=epoch, timestamp=NOW_MS + number)
        if is_followed:
            while not _agrees(leader, follower):
                pass
            catch_up(follower, leader, max_bytes)
    assert content(logs[0]) == content(logs[1])
    reopened = open_log(root / "a-0", SMALL)
    assert content(reopened) == content(logs[1])
    assert reopened.epochs.entries == logs[1].epochs.entries


def _agrees(leader: Log, follower: Log) -> bool:
    """Send the follower's last epoch and end to the leader once (KIP-595). Returns True if the logs agree."""
    last_epoch = follower.epochs.latest_epoch
    if last_epoch < 0:
        return True
    epoch, end_offset = leader.epochs.end_offset_for(last_epoch, leader.log_end_offset)
    if epoch < 0:
        follower.truncate_fully_and_start_at(leader.log_start_offset)
    elif epoch < last_epoch or end_offset < follower.log_end_offset:
        own_epoch, own_end_offset = follower.epochs.end_offset_for(epoch, follower.log_end_offset)
        follower.truncate_to(end_offset if own_epoch < 0 else min(end_offset, own_end_offset))
    else:
        return True
    trio.run(follower.durability.settle)
    return False
