"""Logs that change while a pass reads them: nothing is reported, and nothing good is repaired away."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
import trio
import trio.testing

from broker.storage.cleaner import Cleaner, CleanerConfig
from broker.storage.log_config import LogConfig
from broker.storage.scrub import ScrubConfig
from broker.storage.scrub.place import SCRUB_CHECKPOINT, ScrubPlace
from broker.storage.scrub.segment_check import SegmentCheck
from kraft.env import Buffer, RealDisk, RealFile
from tests.support.logs import DAY_MS, NOW_MS, append, values
from tests.support.scrubbed_logs import CONFIG, FAST, KEY, TOPIC_ID, ScrubbedLogs, fill, flipped, scrubbed_logs

T = TypeVar("T")


class HeldDisk(RealDisk):
    """Holds the work of the scrubber that `is_held` selects until `release`; `holding` is set meanwhile."""

    def __init__(self) -> None:
        self.is_held: Callable[[object], bool] = lambda work: False
        self.holding, self.released = trio.Event(), trio.Event()

    async def run_apart(self, work: Callable[[], T]) -> T:
        result = await super().run_apart(work)
        if self.is_held(work) and not self.released.is_set():
            self.holding.set()
            await self.released.wait()
        return result

    def hold_reading(self, name: str) -> None:
        """Hold the scrubber after it has read the first of the small files of this name, or with this suffix."""
        self.is_held = lambda work: any(str(each).endswith(name) for each in getattr(work, "args", ()))

    def hold_checks(self, count: int = 1) -> None:
        """Hold the scrubber after it has read `count` pieces of segments."""
        seen = 0

        def is_held(work: object) -> bool:
            nonlocal seen
            seen += isinstance(getattr(work, "__self__", None), SegmentCheck)
            return seen == count

        self.is_held = is_held


@asynccontextmanager
async def held_pass(path: Path, *, config: LogConfig = CONFIG, damaged: bool = False) -> AsyncIterator[ScrubbedLogs]:
    """A log whose first segment has been read by a pass, which goes on at the end of the block.

    With `damaged`, the pass has found a damaged batch there.
    """
    disk = HeldDisk()
    async with scrubbed_logs(path / "data", disk=disk, config=config) as logs:
        await fill(logs)
        first = Path(logs.log.segments[0].path)
        if damaged:
            logs.put(first, flipped(logs.content(first), 8 * 100))
        disk.hold_checks()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrub)
            await disk.holding.wait()
            yield logs
            disk.released.set()


def check_nothing_was_found(logs: ScrubbedLogs) -> None:
    assert logs.reported == []
    assert logs.rebuilt() == []
    assert logs.scrubber.statistics.damaged == 0


@pytest.mark.parametrize("damaged", [False, True])
async def test_segment_deleted_by_retention(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, damaged: bool
) -> None:
    async with held_pass(tmp_path, damaged=damaged) as logs:
        log = logs.log
        log.advance_log_start_offset(log.segments[1].base_offset)
        log.segments.delete_first(1)
    check_nothing_was_found(logs)


@pytest.mark.parametrize("damaged", [False, True])
async def test_partition_deleted(tmp_path: Path, autojump_clock: trio.testing.MockClock, damaged: bool) -> None:
    async with held_pass(tmp_path, damaged=damaged) as logs:
        logs.log_manager.delete(*KEY)
    check_nothing_was_found(logs)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", ".snapshot"])
@pytest.mark.parametrize("is_recreated", [False, True])
async def test_partition_deleted_while_a_file_beside_its_segments_is_read(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, name: str, is_recreated: bool
) -> None:
    """The pass writes nothing where a new log of the partition may be, and the log directory stays online."""
    disk = HeldDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        for path in logs.partition.iterdir():
            if path.name.endswith(name):
                path.unlink()  # what the pass has to write again
        disk.hold_reading(name)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrub)
            await disk.holding.wait()
            logs.log_manager.delete(*KEY)
            if is_recreated:
                logs.log_manager.create(KEY[0], bytes(range(16)), KEY[1], CONFIG)
            files = {path: path.read_bytes() for path in logs.partition.glob("*")}
            disk.released.set()
        assert logs.directory.is_online
        assert {path: path.read_bytes() for path in logs.partition.glob("*")} == files
    check_nothing_was_found(logs)


@pytest.mark.parametrize("damaged", [False, True])
async def test_log_truncated_within_the_segment_and_filled_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, damaged: bool
) -> None:
    async with held_pass(tmp_path, damaged=damaged) as logs:
        log = logs.log
        log.truncate_to(1)
        await log.durability.settle()
        for number in range(20):
            append(log, b"another %d" % number, leader_epoch=7)
    check_nothing_was_found(logs)


async def test_log_truncated_to_nothing_and_restarted(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with held_pass(tmp_path, damaged=True) as logs:
        logs.log.truncate_fully_and_start_at(1000)
        await logs.log.durability.settle()
        append(logs.log, b"first")
    check_nothing_was_found(logs)


async def test_segments_replaced_by_compaction(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    compacted = attrs.evolve(CONFIG, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    async with held_pass(tmp_path, config=compacted) as logs:
        log = logs.log
        for number in range(30):
            append(log, b"%d" % number, key=b"later", leader_epoch=7)
        log.roll()
        log.producers.advance_high_watermark(log.log_end_offset)
        cleaner = Cleaner(logs.env, logs.log_manager, lambda *key: log.log_end_offset, CleanerConfig())
        before = log.segments[0]
        await cleaner.clean_dirtiest()
        assert log.segments.index(before) is None
    check_nothing_was_found(logs)
    await logs.scrub()
    check_nothing_was_found(logs)


async def test_active_segment_that_grows_and_is_rolled(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    one_segment = attrs.evolve(CONFIG, segment_bytes=1 << 20)
    async with held_pass(tmp_path, config=one_segment) as logs:
        for number in range(50):
            append(logs.log, b"more %d" % number, leader_epoch=7, timestamp=NOW_MS + 1000 + number)
        logs.log.roll()
        for number in range(50):
            append(logs.log, b"more %d" % number, leader_epoch=8, timestamp=NOW_MS + 2000 + number)
    check_nothing_was_found(logs)
    await logs.scrub()
    check_nothing_was_found(logs)


async def test_index_of_the_active_segment_is_rebuilt_while_it_grows(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    one_segment = attrs.evolve(CONFIG, segment_bytes=1 << 20)
    disk = HeldDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk, config=one_segment) as logs:
        await fill(logs)
        index = Path(logs.log.segments.active.offset_index.path)
        logs.put(index, flipped(logs.content(index), 40))
        disk.hold_checks()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrub)
            await disk.holding.wait()
            for number in range(50):
                append(logs.log, b"more %d" % number, leader_epoch=7)
            disk.released.set()
        assert logs.rebuilt() == [index.name]
        expected = values(logs.log)
        await logs.log.flush()
        logs.forget()
        await logs.scrub()
        assert logs.rebuilt() == []
    async with scrubbed_logs(tmp_path / "data", config=one_segment) as logs:
        assert values(logs.log) == expected


async def test_index_of_the_active_segment_that_was_repaired_meanwhile_is_not_rebuilt(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A reader that finds the damage makes the index again, too."""
    disk = HeldDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk, config=attrs.evolve(CONFIG, segment_bytes=1 << 20)) as logs:
        await fill(logs)
        index = Path(logs.log.segments.active.offset_index.path)
        content = logs.content(index)
        logs.put(index, flipped(content, 40))
        disk.hold_checks()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrub)
            await disk.holding.wait()
            logs.put(index, content)
            disk.released.set()
        assert logs.content(index) == content
    check_nothing_was_found(logs)


async def test_pass_goes_on_where_it_was_after_a_restart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    disk = HeldDisk()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        segments = list(logs.log.segments)
        disk.hold_checks(3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrub)
            await disk.holding.wait()
            nursery.cancel_scope.cancel()
        disk.released.set()
        again = logs.another_scrubber()
        await again.scrub_directory(logs.directory)
        read = again.statistics.bytes_read
        assert sum(each.written for each in segments[2:]) < read < sum(each.written for each in segments)


async def test_interrupted_pass_goes_on_at_once_after_a_restart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    disk = HeldDisk()

    def wall() -> float:
        return NOW_MS / 1000 + trio.current_time()

    async with scrubbed_logs(tmp_path / "data", disk=disk, wall=wall) as logs:
        await fill(logs)
        ScrubPlace(disk, str(logs.path)).begin(NOW_MS)
        disk.is_held = lambda work: True
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.another_scrubber(ScrubConfig(interval_ms=DAY_MS, initial_delay_ms=0)).run)
            await disk.holding.wait()
            waited_s = trio.current_time() - began
            disk.released.set()
            nursery.cancel_scope.cancel()
    assert waited_s < 60


async def test_damage_of_the_device_is_repaired_from_the_page_cache(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    disk = DamagedDevice()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        path = logs.log.segments[1].path
        disk.damaged[path] = 8 * 100
        await logs.scrub()
        assert [event["path"] for event in logs.traced.of("storage_batch_rewritten")] == [path]
        assert logs.reported == []
        assert logs.scrubber.statistics.rebuilt == 1


@pytest.mark.parametrize("bit", [8 * 12 + 5, 8 * 15 + 7])
async def test_leader_epoch_that_is_damaged_on_the_device_is_repaired_from_the_page_cache(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, bit: int
) -> None:
    """No checksum covers it. An epoch that is too low is damage, as well as one that is too high."""
    disk = DamagedDevice()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        for epoch in (2, 3):
            for number in range(4):
                append(logs.log, b"%d" % number, leader_epoch=epoch)
        await logs.log.flush()
        segment, position, _ = logs.log.segments.locate(5)
        disk.damaged[segment.path] = 8 * position + bit
        await logs.scrub()
        assert [event["path"] for event in logs.traced.of("storage_batch_rewritten")] == [segment.path]
        assert disk.damaged == {}
        assert logs.reported == []
        assert logs.rebuilt() == []


async def test_damage_of_the_device_that_the_page_cache_hides_is_repaired_in_all_small_files(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A start without the page cache would read it. The bit is also flipped in files that appends still change."""
    disk = DamagedDevice()
    async with scrubbed_logs(tmp_path / "data", disk=disk) as logs:
        await fill(logs)
        paths = [each for each in logs.files() if each.suffix != ".log" and each.name != SCRUB_CHECKPOINT]
        assert {each.suffix for each in paths} >= {".index", ".timeindex", ".txnindex", ".snapshot", ".properties"}
        for path in paths:
            logs.forget()
            content = logs.content(path)
            disk.damaged[str(path)] = 8 * (len(content) // 2) + 1
            await logs.scrub()
            assert logs.rebuilt() == [path.name]
            assert logs.content(path) == content
            assert disk.damaged == {}


async def test_next_pass_begins_soon_after_the_wall_clock_was_set_back(
    tmp_path: Path, jumping_clock: trio.testing.MockClock
) -> None:
    """A clock that was ahead for a while must not keep the scrubber from its work until that time has come."""
    ahead_s = 86_400.0
    often = ScrubConfig(interval_ms=10_000, io_max_bytes_per_second=1 << 40, initial_delay_ms=0)

    def wall() -> float:
        return NOW_MS / 1000 + ahead_s + trio.current_time()

    async with scrubbed_logs(tmp_path / "data", scrub_config=often, wall=wall) as logs:
        await fill(logs)
        await logs.scrub()
        ahead_s = 0.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.scrubber.run)
            with trio.fail_after(3600):
                while logs.scrubber.statistics.passes < 3:
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()


class DamagedDevice(RealDisk):
    """A device with a flipped bit in some files, which is gone once a file is written or replaced."""

    def __init__(self) -> None:
        self.damaged: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False) -> Any:
        return DamagedFile(self, super().open(path, create=create))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.damaged.pop(new, None)


class DamagedFile:
    def __init__(self, disk: DamagedDevice, file: RealFile) -> None:
        self._disk, self._file = disk, file

    def read_from_device(self, offset: int, count: int) -> bytes:
        data = self._file.read(offset, count)
        bit = self._disk.damaged.get(self._file.path, -1) - offset * 8
        return flipped(data, bit) if 0 <= bit < len(data) * 8 else data

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.damaged.pop(self._file.path, None)
        self._file.write(offset, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def test_shutdown_ends_a_pass_at_once(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    slow = ScrubConfig(interval_ms=FAST.interval_ms, io_max_bytes_per_second=1024)
    async with scrubbed_logs(tmp_path / "data", scrub_config=slow) as logs:
        await fill(logs)
        began = trio.current_time()
        with trio.move_on_after(40) as scope:
            await logs.scrubber.run()
        assert scope.cancelled_caught
        assert trio.current_time() - began == 40
        assert logs.scrubber.statistics.passes == 0


async def test_other_tasks_run_while_the_rate_of_a_pass_over_many_logs_is_computed(tmp_path: Path) -> None:
    """The sizes of 3,000 logs take 14 ms."""
    async with scrubbed_logs(tmp_path / "data") as logs:
        for partition in range(1, 450):
            logs.log_manager.create(KEY[0], TOPIC_ID, partition, CONFIG)
        directory, steps = logs.directory, 0

        async def count_steps() -> None:
            nonlocal steps
            while True:
                steps += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_steps)
            await logs.scrubber._set_rate(directory, logs.scrubber._place_of(directory))
            assert steps > 0
            nursery.cancel_scope.cancel()


async def test_epochs_that_the_metadata_has_lost_are_no_damage(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """After `kraft accept-loss`, leaders begin again with an earlier epoch."""
    async with scrubbed_logs(tmp_path / "data") as logs:
        for number in range(20):
            append(logs.log, b"%d" % number, leader_epoch=5)
        logs.log.epochs.assign(3, logs.log.log_end_offset)
        for number in range(5):
            append(logs.log, b"%d" % number, leader_epoch=3)
        await logs.log.flush()
        entries = logs.log.epochs.entries
        for _ in range(2):
            await logs.scrub()
        check_nothing_was_found(logs)
        assert logs.log.epochs.entries == entries
