"""The logs that the cleaner selects, when it runs, and its handling of failures."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from broker.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT
from broker.storage.cleaner import Cleaner, CleanerConfig
from broker.storage.cleaner.log_to_clean import find_log_to_clean
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from broker.storage.retention import delete_old_segments
from jepsen.testing.unsynced_disk import UnsyncedDisk
from kraft.env import Env
from tests.support.compacted_logs import COMPACTED, latest, put
from tests.support.logs import DAY_MS, NOW_MS, listing, read_all

TOPIC_ID = bytes([1] * 16)


class Harness:
    """Logs of one topic in two directories, and a clock."""

    def __init__(self, path: Path, config: LogConfig = COMPACTED) -> None:
        self.path = path
        self.config = config
        self.disk = UnsyncedDisk()
        self.now_ms = NOW_MS
        self.events: list[tuple[str, dict[str, object]]] = []
        self.env = Env(self.disk, random.Random(7), lambda: self.now_ms / 1000, self._trace)
        self.high_watermarks: dict[int, int] = {}
        self.log_manager: LogManager

    def _trace(self, kind: str, /, **fields: object) -> None:
        self.events.append((kind, fields))

    def of(self, kind: str) -> list[dict[str, object]]:
        return [fields for name, fields in self.events if name == kind]

    async def start(self) -> None:
        paths = str(self.path / "a"), str(self.path / "b")
        self.log_manager = await LogManager.open(
            self.env, LogManagerConfig(directories=paths, node_id=1), cluster_id="c"
        )
        await self.log_manager.load(lambda topic: self.config)

    def create(self, partition: int, config: LogConfig | None = None) -> Log:
        return self.log_manager.create("t", TOPIC_ID, partition, config or self.config)

    def high_watermark(self, topic: str, partition: int) -> int:
        return self.high_watermarks.get(partition, self.log_manager.logs[topic, partition].log_end_offset)

    def cleaner(self, **config: object) -> Cleaner:
        return Cleaner(self.env, self.log_manager, self.high_watermark, attrs.evolve(CleanerConfig(), **config))

    def checkpoint(self, partition: int) -> list[str]:
        directory = self.log_manager.directory_of("t", partition)
        assert directory is not None
        return (Path(directory.path) / CLEANER_OFFSET_CHECKPOINT).read_text().splitlines()[2:]


@pytest.fixture
async def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    await harness.start()
    return harness


def fill(log: Log, batches: int, keys: int = 3, now_ms: int = NOW_MS) -> None:
    for number in range(batches):
        put(log, *((b"%d" % (number % keys), b"%d-%d" % (number, at)) for at in range(2)), now_ms=now_ms)


@asynccontextmanager
async def running(cleaner: Cleaner) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cleaner.run)
        yield
        nursery.cancel_scope.cancel()


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not holds():
            await trio.sleep(0.005)


async def test_dirtiest_log_is_cleaned_first_and_checkpointed(harness: Harness) -> None:
    clean, dirty, dirtier = (harness.create(partition) for partition in range(3))
    fill(dirty, 30)
    fill(dirtier, 30)
    cleaner = harness.cleaner()
    assert await cleaner.clean_dirtiest()
    assert await cleaner.clean_dirtiest()
    assert not await cleaner.clean_dirtiest()
    fill(dirty, 25)
    fill(dirtier, 90)
    assert await cleaner.clean_dirtiest()
    first, second, third = harness.of("storage_log_cleaned")
    assert first["path"] == dirty.directory
    assert second["path"] == third["path"] == dirtier.directory
    assert await cleaner.clean_dirtiest()
    for partition, log in enumerate((clean, dirty, dirtier)):
        line = f"t {partition} {log.cleaned_offset}"
        assert (line in harness.checkpoint(partition)) == (log is not clean)


async def test_cleaned_offset_survives_a_restart(harness: Harness) -> None:
    log = harness.create(0)
    fill(log, 30)
    await harness.cleaner().clean_dirtiest()
    await harness.log_manager.close_cleanly()
    await harness.start()
    again = harness.log_manager.logs["t", 0]
    assert again.cleaned_offset == log.cleaned_offset > 0
    assert not await harness.cleaner().clean_dirtiest()
    assert latest(read_all(again)) == {b"%d" % key: b"%d-1" % (27 + key) for key in range(3)}


async def test_only_compacted_topics_are_cleaned(harness: Harness) -> None:
    log = harness.create(0, attrs.evolve(COMPACTED, cleanup_policy=("delete",)))
    fill(log, 30)
    assert not await harness.cleaner().clean_dirtiest()
    log.configure(attrs.evolve(COMPACTED, cleanup_policy=("compact", "delete")))
    assert await harness.cleaner().clean_dirtiest()


async def test_log_that_begins_within_its_only_inactive_segment_is_cleaned(harness: Harness) -> None:
    log = harness.create(0)
    fill(log, 4)
    log.roll()
    log.advance_log_start_offset(3)
    assert await harness.cleaner().clean_dirtiest()
    assert log.cleaned_offset == 8
    assert not await harness.cleaner().clean_dirtiest()


async def test_min_cleanable_dirty_ratio_is_the_least_dirty_ratio_to_clean(harness: Harness) -> None:
    log = harness.create(0, attrs.evolve(COMPACTED, min_cleanable_dirty_ratio=0.5))
    fill(log, 60, keys=60)
    cleaner = harness.cleaner()
    assert await cleaner.clean_dirtiest()
    assert not await cleaner.clean_dirtiest()
    fill(log, 20, keys=60)
    to_clean = find_log_to_clean(log, high_watermark=log.log_end_offset, now_ms=NOW_MS)
    assert 0 < to_clean.ratio < 0.5
    assert not await cleaner.clean_dirtiest()
    log.configure(attrs.evolve(log.config, min_cleanable_dirty_ratio=to_clean.ratio - 0.01))
    assert await cleaner.clean_dirtiest()


async def test_min_compaction_lag_ms_keeps_young_records(harness: Harness) -> None:
    log = harness.create(0, attrs.evolve(COMPACTED, min_compaction_lag_ms=60_000))
    fill(log, 20, now_ms=NOW_MS - 60_000)
    log.roll()
    young = log.log_end_offset
    fill(log, 20, now_ms=NOW_MS - 59_999)
    assert await harness.cleaner().clean_dirtiest()
    assert log.cleaned_offset == young
    assert not await harness.cleaner().clean_dirtiest()


async def test_max_compaction_lag_ms_makes_a_hardly_dirty_log_due_kip_354(harness: Harness) -> None:
    log = harness.create(0, attrs.evolve(COMPACTED, min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=60_000))
    fill(log, 30)
    assert await harness.cleaner().clean_dirtiest()
    fill(log, 10)
    assert not await harness.cleaner().clean_dirtiest()
    harness.now_ms += 60_001
    assert await harness.cleaner().clean_dirtiest()
    assert log.cleaned_offset == log.segments.active.base_offset


def test_segment_of_a_compacted_log_is_rolled_after_max_compaction_lag_ms_kip_354() -> None:
    config = LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=5_000)
    assert config.max_segment_ms == 5_000
    assert attrs.evolve(config, cleanup_policy=("delete",)).max_segment_ms == 7 * DAY_MS
    assert attrs.evolve(config, segment_ms=4_000).max_segment_ms == 4_000


async def test_uncommitted_segments_are_not_cleaned(harness: Harness) -> None:
    log = harness.create(0)
    fill(log, 30)
    harness.high_watermarks[0] = 0
    assert not await harness.cleaner().clean_dirtiest()


async def test_damaged_log_is_not_cleaned_and_others_are(harness: Harness) -> None:
    damaged, sound = harness.create(0), harness.create(1)
    fill(damaged, 60)
    fill(sound, 30)
    path = Path(damaged.directory) / f"{damaged.segments[1].base_offset:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    cleaner = harness.cleaner()
    while await cleaner.clean_dirtiest():
        pass
    assert [event["path"] for event in harness.of("storage_log_uncleanable")] == [damaged.directory]
    assert [event["path"] for event in harness.of("storage_log_cleaned")] == [sound.directory]
    assert damaged.failure is None


async def test_directory_that_fails_during_a_compaction_goes_offline(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = harness.create(0)
    fill(log, 30)
    directory = harness.log_manager.directory_of("t", 0)
    assert directory is not None

    def refuse(old: str, new: str) -> None:
        raise OSError(5, "Input/output error", new)

    monkeypatch.setattr(harness.disk, "rename", refuse)
    assert await harness.cleaner().clean_dirtiest()
    assert not directory.is_online
    assert ("t", 0) not in harness.log_manager.logs


async def test_deleting_a_topic_during_its_cleaning_leaves_no_files(harness: Harness) -> None:
    log = harness.create(0, attrs.evolve(COMPACTED, file_delete_delay_ms=0))
    fill(log, 400)
    cleaner = harness.cleaner(io_max_bytes_per_second=1.0)  # so slow that it never finishes by itself
    with trio.fail_after(20):
        async with running(cleaner):
            await until(lambda: bool(cleaner._in_progress))
            harness.log_manager.delete("t", 0)
            again = harness.create(0)
            fill(again, 30)
            cleaner.configure(CleanerConfig())
            await until(lambda: again.cleaned_offset > 0)
    assert harness.log_manager.partition_directories() == list(harness.log_manager.directories.values())
    assert latest(read_all(again)) == {b"%d" % key: b"%d-1" % (27 + key) for key in range(3)}


async def test_running_cleaner_applies_a_changed_config_at_once(harness: Harness) -> None:
    logs = [harness.create(partition) for partition in range(4)]
    for log in logs:
        fill(log, 30)
    cleaner = harness.cleaner(enable=False)
    async with running(cleaner):
        await trio.sleep(0.05)
        assert [log.cleaned_offset for log in logs] == [-1] * 4
        cleaner.configure(CleanerConfig(threads=2, backoff_ms=10))
        await until(lambda: all(log.cleaned_offset > 0 for log in logs))
        fill(logs[0], 60)
        await until(lambda: logs[0].cleaned_offset == logs[0].segments.active.base_offset)


async def test_io_max_bytes_per_second_is_not_exceeded(harness: Harness, autojump_clock: object) -> None:
    log = harness.create(0, attrs.evolve(COMPACTED, segment_bytes=200_000))
    for number in range(200):
        put(log, (b"%d" % number, b"x" * 10_000))
    size = sum(segment.size_bytes for segment in log.segments if segment is not log.segments.active)
    began = trio.current_time()
    await harness.cleaner(io_max_bytes_per_second=1e6).clean_dirtiest()
    # All bytes are read twice and written once.
    assert trio.current_time() - began == pytest.approx(3 * size / 1e6, rel=0.25)


async def test_old_files_are_removed_after_their_delay(harness: Harness) -> None:
    log = harness.create(0)
    fill(log, 30)
    await harness.cleaner().clean_dirtiest()
    names = listing(Path(log.directory), ".log.deleted")
    assert names
    removed_later = {Path(one.path).name for one in harness.log_manager.pending_removals}
    assert set(names) <= removed_later


async def test_compact_and_delete_removes_old_segments(harness: Harness) -> None:
    config = attrs.evolve(COMPACTED, cleanup_policy=("compact", "delete"), retention_ms=60_000)
    log = harness.create(0, config)
    fill(log, 30, now_ms=NOW_MS - 120_000)
    log.roll()
    fill(log, 30, keys=2)
    await harness.cleaner().clean_dirtiest()
    delete_old_segments(log, NOW_MS, log.log_end_offset)
    assert log.log_start_offset >= 60
    fill(log, 60, keys=2)
    assert await harness.cleaner().clean_dirtiest()
    assert {record.key for record in read_all(log)} == {b"0", b"1"}
