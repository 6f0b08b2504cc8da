"""One flipped bit anywhere in a log directory is found by the next pass, and repaired or reported."""

from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.damage import DamagedRanges
from broker.storage.scrub import ScrubConfig
from broker.wire.errors import KafkaError
from broker.wire.records import HEADER_SIZE, LOG_OVERHEAD, iter_headers
from jepsen.testing.unsynced_disk import UnsyncedDisk
from tests.support.logs import append, flip
from tests.support.scrubbed_logs import CONFIG, KEY, ScrubbedLogs, fill, flipped, sampled_bits, scrubbed_logs
from tests.support.transactional_logs import append_marker, append_transactional

# The name of the lock file's content, and the scrubber's own place, which each pass replaces.
NOT_SCRUBBED = {"scrub-offset-checkpoint"}


@pytest.mark.parametrize("is_reopened", [False, True])
async def test_pass_over_intact_files_finds_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, is_reopened: bool
) -> None:
    async with scrubbed_logs(tmp_path / "data") as logs:
        await fill(logs)
        before = {path: path.read_bytes() for path in logs.files()}
        await logs.scrub()
        if not is_reopened:
            check_nothing_was_found(logs)
            assert {path: path.read_bytes() for path in before} == before
    if is_reopened:
        async with scrubbed_logs(tmp_path / "data") as logs:
            await logs.scrub()
            check_nothing_was_found(logs)


def check_nothing_was_found(logs: ScrubbedLogs) -> None:
    assert logs.reported == []
    assert logs.rebuilt() == []
    (event,) = logs.traced.of("storage_scrubbed")
    assert event["damaged"] == 0
    assert logs.scrubber.statistics.bytes_read > sum(segment.written for segment in logs.log.segments)


@pytest.mark.parametrize("is_reopened", [False, True])
async def test_every_flipped_bit_is_found(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, is_reopened: bool
) -> None:
    async with scrubbed_logs(tmp_path / "data", disk=UnsyncedDisk()) as logs:
        await fill(logs)
        if not is_reopened:
            await check_all_files(logs)
    if is_reopened:  # then nothing is loaded, and segments are not held open
        async with scrubbed_logs(tmp_path / "data", disk=UnsyncedDisk()) as logs:
            await check_all_files(logs)


async def check_all_files(logs: ScrubbedLogs) -> None:
    kinds = set()
    for path in logs.files():
        if path.name not in NOT_SCRUBBED:
            kinds.add(path.suffix or path.name)
            await check_file(logs, path)
    assert kinds >= {
        ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".metadata", ".properties", "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
    }  # fmt: skip


async def check_file(logs: ScrubbedLogs, path: Path, *, stride: int = 83) -> None:
    content = logs.content(path)
    for bit in sampled_bits(content, stride):
        logs.forget()
        logs.put(path, flipped(content, bit))
        await logs.scrub()
        where = f"bit {bit} of {path.name}"
        if path.suffix == ".log":
            assert logs.rebuilt() == [], where
            check_reported(logs, content, bit // 8, where)
            logs.put(path, content)
        else:
            assert logs.reported == [], where
            assert logs.rebuilt() == [path.name], where
            assert logs.content(path) == content, where


def check_reported(logs: ScrubbedLogs, content: bytes, position: int, where: str) -> None:
    """The damaged batch was reported, and nothing else."""
    header = next(header for start, header in iter_headers(content) if start <= position < start + header.size)
    if not logs.reported:  # a leader epoch of deleted records, which nothing reads
        assert header.last_offset < logs.log.log_start_offset, where
        return
    ((key, damage),) = logs.reported
    assert key == KEY
    assert damage.first_offset == header.base_offset, where
    # After a damaged header, the next batch of which an index entry tells is the next one that is known to be intact.
    assert damage.end_offset >= header.next_offset, where


async def test_reader_has_a_damaged_transaction_index_repaired_at_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The read is refused, and the index is made again before the next pass is due."""
    async with scrubbed_logs(tmp_path / "data") as logs:
        await fill(logs)
        await logs.scrub()
        log = logs.log
        log.segments.release()
        path = [each for each in logs.files() if each.suffix == ".txnindex"][-1]
        segment = next(each for each in log.segments if each.transaction_index.path == str(path))
        content = logs.content(path)
        logs.put(path, flipped(content, 8 * 12))
        found = log.read(segment.base_offset, 1, upper_bound=log.log_end_offset, min_one_batch=True)
        with pytest.raises(KafkaError):
            aborted_transactions(log, found, segment.base_offset, log.log_end_offset)
        logs.scrubber.configure(ScrubConfig(enable=False, initial_delay_ms=0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrubber.run)
            while not logs.rebuilt():
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert logs.content(path) == content
        assert aborted_transactions(log, found, segment.base_offset, log.log_end_offset)
        assert logs.rebuilt() == [path.name]


async def test_damage_is_counted_once_and_not_after_its_records_were_deleted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The alert for damage would come back with each pass otherwise, also after its records were deleted."""
    async with scrubbed_logs(tmp_path / "data") as logs:
        for number in range(3):
            append(logs.log, b"value %d" % number)
        await logs.log.flush()
        (path,) = (each for each in logs.files() if each.suffix == ".log")
        logs.put(path, flipped(logs.content(path), 8 * 100))
        await logs.scrub()
        ((_, damage),) = logs.reported
        logs.log.segments.damaged = DamagedRanges((damage,))  # as the broker notes it
        await logs.scrub()
        assert [event["damaged"] for event in logs.traced.of("storage_scrubbed")] == [1, 0]
        logs.forget()
        logs.log.segments.damaged = None
        logs.log.advance_log_start_offset(damage.end_offset)
        await logs.scrub()
        assert logs.reported == []
        assert [event["damaged"] for event in logs.traced.of("storage_scrubbed")] == [0]


@pytest.fixture
def patient_clock() -> trio.testing.MockClock:
    """Virtual time that does not jump while threads read and sync, so that only the pauses of a pass take time."""
    return trio.testing.MockClock(autojump_threshold=0.03)


async def test_transaction_index_that_readers_wait_for_is_made_again_at_the_full_rate(
    tmp_path: Path, patient_clock: trio.testing.MockClock
) -> None:
    """The rate of the pass, which has a week, would take minutes for these segments."""
    async with scrubbed_logs(tmp_path / "data", config=attrs.evolve(CONFIG, segment_bytes=1 << 20)) as logs:
        for number in range(3):
            append_transactional(logs.log, 1, (b"key", bytes(1 << 19)))
            append_marker(logs.log, 1, is_commit=False)
            append_transactional(logs.log, 1, (b"key", bytes(1 << 19)))
            append_marker(logs.log, 1, is_commit=number != 0)
        await logs.log.flush()
        logs.scrubber.configure(ScrubConfig(initial_delay_ms=0, io_max_bytes_per_second=1 << 30))
        await logs.scrub()
        logs.log.segments.release()
        path = min(logs.partition.glob("*.txnindex"))
        logs.put(path, flipped(logs.content(path), 8 * 12))
        logs.log_manager.suspects.add(KEY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrubber.run)
            with trio.fail_after(5):
                while path.name not in logs.rebuilt():
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


async def test_first_problem_of_an_index_is_traced(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with scrubbed_logs(tmp_path / "data") as logs:
        await fill(logs)
        indexes = logs.log.segments[0].offset_index, logs.log.segments[0].time_index
        for index in indexes:
            content = logs.content(Path(index.path))
            assert len(content) > index.ENTRY.size
            logs.put(Path(index.path), flipped(content, 6)[: -index.ENTRY.size])
        await logs.scrub()
        traced = {event["path"]: event["error"] for event in logs.traced.of("storage_file_rebuilt")}
        assert traced == {index.path: "the entry at byte 0 names no batch" for index in indexes}


async def test_adjacent_damaged_batches_are_one_damage(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with scrubbed_logs(tmp_path / "data") as logs:
        for number in range(4):
            append(logs.log, b"value %d" % number)
        await logs.log.flush()
        for offset in (1, 2):
            flip(logs.log.segments.locate(offset)[:2], HEADER_SIZE)
        await logs.scrub()
        assert [(damage.first_offset, damage.end_offset) for _, damage in logs.reported] == [(1, 3)]


async def test_batches_whose_epochs_fall_are_damaged_and_the_epochs_of_the_log_stay(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A checksum does not cover the epoch. Epochs of intact batches never fall."""
    async with scrubbed_logs(tmp_path / "data") as logs:
        for epoch in (0, 0, 0, 0, 0, 3):
            append(logs.log, b"value", leader_epoch=epoch)
        await logs.log.flush()
        before = logs.log.epochs.entries
        for offset, epoch in ((1, 2), (3, 1)):
            segment, position, _ = logs.log.segments.locate(offset)
            segment.file.write(position + LOG_OVERHEAD, [epoch.to_bytes(4)])
        await logs.scrub()
        assert [damage.first_offset for _, damage in logs.reported] == [1, 3]
        assert logs.log.epochs.entries == before
