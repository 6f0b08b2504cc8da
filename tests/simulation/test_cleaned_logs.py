"""A power cut, or the death of the process, at every step of a compaction loses no records."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import attrs
import pytest
import trio

from broker.storage import swapping
from broker.storage.cleaner import cleaned_segment
from broker.storage.log import Log
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from broker.storage.transaction_index import AbortedTransaction
from broker.wire.records import Record
from jepsen.simulation import Host, Simulation
from kraft.env import Buffer, Disk, Env, File, sync_one_by_one
from tests.support.compacted_logs import COMPACTED, clean, latest, put, without_repeats
from tests.support.logs import DAY_MS, NOW_MS, read_all

CONFIG = attrs.evolve(COMPACTED, segment_bytes=500)
# More steps than a compaction of such a log has.
STEPS_MAX = 400


class Died(BaseException):
    """The process is dead; nothing may catch this exception."""


class MortalDisk:
    """A disk that dies at step number `last`, counted from when `steps` is set to 0, and then does nothing."""

    def __init__(self, disk: Disk, last: int) -> None:
        self._disk = disk
        self._last = last
        self.steps = -1_000_000

    def step(self) -> None:
        self.steps += 1
        if self.steps >= self._last:
            raise Died

    def open(self, path: str, *, create: bool = False) -> Any:
        if create and not self._disk.exists(path):
            self.step()
        return MortalFile(self, self._disk.open(path, create=create))

    def rename(self, old: str, new: str) -> None:
        self.step()
        self._disk.rename(old, new)

    async def remove(self, path: str) -> None:
        self.step()
        await self._disk.remove(path)

    async def sync_dir(self, path: str) -> None:
        self.step()
        await self._disk.sync_dir(path)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class MortalFile:
    def __init__(self, disk: MortalDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.step()
        self._file.write(offset, buffers)

    def truncate(self, size: int) -> None:
        self._disk.step()
        self._file.truncate(size)

    async def sync(self) -> None:
        self._disk.step()
        await self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def open_log(env: Env) -> tuple[LogManager, Log]:
    log_manager = await LogManager.open(env, LogManagerConfig(directories=("/data",), node_id=1), cluster_id="c")
    await log_manager.load(lambda topic: CONFIG)
    return log_manager, log_manager.create("t", bytes(16), 0, CONFIG)


async def write(log: Log, rng: Random, count: int) -> None:
    for number in range(count):
        keys = [rng.randrange(6) for _ in range(rng.randint(1, 3))]
        put(log, *((b"%d" % key, None if rng.random() < 0.2 else b"%d-%d" % (number, key)) for key in keys))


async def run_once(host: Host, rng: Random, last: int) -> tuple[list[Record], int, bool]:
    """The committed records, the offset from which on nothing was cleaned, and True if the process died during the last
    compaction.
    """
    env = host.env(host.incarnation)
    disk = MortalDisk(env.disk, last)
    log_manager, log = await open_log(attrs.evolve(env, disk=disk))
    await env.disk.sync_dir("/data")
    await write(log, rng, 25)
    await clean(log, disk=disk, high_watermark=log.log_end_offset // 2)
    await write(log, rng, 25)
    await log.flush()  # records that only this replica has are not part of the test
    before = read_all(log)
    disk.steps = 0
    try:
        await clean(log, disk=disk, now_ms=NOW_MS + 2 * DAY_MS)
        await log_manager.directories["/data"].write_cleaned_offsets()
    except Died:
        return before, log.segments.active.base_offset, True
    return before, log.segments.active.base_offset, False


async def live_and_look(host: Host, seed: int, last: int, crash: Callable[[Host], None], seen: dict[str, int]) -> None:
    before, end, has_died = await run_once(host, Random(seed), last)
    crash(host)
    _, log = await open_log(host.env(host.incarnation))
    seen["runs"] += 1
    seen["deaths"] += has_died
    found = read_all(log)
    try:
        assert not log.durability.is_unsettled
        assert latest(found) == latest(before)
        assert log.log_end_offset == before[-1].offset + 1
        assert {record.offset for record in found} <= {record.offset for record in before}
        await clean(log, disk=host.env(host.incarnation).disk, now_ms=NOW_MS + 4 * DAY_MS)
        left = read_all(log)
        assert latest(left) == latest(before)
        wanted = {record.offset for record in without_repeats(before, end) if record.value is not None}
        assert {record.offset for record in left if record.value is not None} == wanted
        names = host.env(host.incarnation).disk.list("/data/t-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    except AssertionError:
        seen["bad"] += 1
        seen.setdefault("first_bad", last)


def power_cut(host: Host) -> None:
    host.power_cut()


def kill(host: Host) -> None:
    host.kill()


def run_to_every_step(crash: Callable[[Host], None], seed: int = 0, *, until_bad: bool = False) -> dict[str, int]:
    """Run the process until its first step, then until its second, and so on, up to an uninterrupted run."""
    seen = {"runs": 0, "deaths": 0, "bad": 0}
    for last in range(STEPS_MAX):
        deaths = seen["deaths"]
        simulation = Simulation(f"{seed}-{last}")
        host = simulation.add_host("one")
        simulation.run(partial(live_and_look, host, seed, last, crash, seen))
        if seen["deaths"] == deaths or (until_bad and seen["bad"]):
            break
    return seen


@pytest.mark.parametrize(("crash", "seed"), [(power_cut, 0), (kill, 1)])
def test_a_cleaning_may_end_at_any_step(crash: Callable[[Host], None], seed: int) -> None:
    seen = run_to_every_step(crash, seed)
    assert seen["bad"] == 0, seen
    assert seen["runs"] - 1 == seen["deaths"] > 20


def test_without_a_sync_before_the_swap_records_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def finish(
        cleaned: cleaned_segment.CleanedSegment, aborted: list[AbortedTransaction], retained_from_ms: int
    ) -> None:
        cleaned.write()
        cleaned._offset_index.save()
        cleaned._time_index.save()
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(cleaned_segment.CleanedSegment, "finish", finish)
    assert run_to_every_step(power_cut, until_bad=True)["bad"] > 0


def test_without_suffixes_for_incomplete_files_records_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swapping, "SWAP_SUFFIX", ".cleaned")
    assert run_to_every_step(kill, until_bad=True)["bad"] > 0
