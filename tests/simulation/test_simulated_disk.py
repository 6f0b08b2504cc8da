"""The simulated disk behaves like the real one without faults, and loses only what a power cut may lose."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
import trio

from jepsen.simulation import Host, Simulation
from jepsen.simulation.disk import SimulatedDisk
from kraft.env import Disk, FsyncFailed, RealDisk


def simulate(main: Callable[[Host, SimulatedDisk], Awaitable[None]], seed: str = "test") -> Simulation:
    """Run with a host, and with the disk of its next process."""
    simulation = Simulation(seed)
    host = simulation.add_host("one")
    simulation.run(lambda: main(host, disk_of(host)))
    return simulation


def disk_of(host: Host) -> SimulatedDisk:
    disk = host.env(host.incarnation).disk
    assert isinstance(disk, SimulatedDisk)
    return disk


def error_of(action: Callable[[], object]) -> object:
    try:
        return action()
    except (OSError, ValueError) as error:
        return type(error).__name__


async def ordinary_use(disk: Disk, base: str) -> list[object]:
    """The results of a program's operations on a disk, including errors."""
    log: list[object] = []
    disk.make_dir(f"{base}/a/b")
    disk.make_dir(f"{base}/a/b")
    file = disk.open(f"{base}/a/b/file", create=True)
    file.write(0, (b"hello ", b"world"))
    file.write(20, (b"!",))
    log += [file.size(), file.read(0, 100), file.read(18, 100), file.read(50, 10)]
    file.truncate(5)
    file.preallocate(1000)
    log += [file.size(), file.read(0, 100)]
    await file.sync()
    log.append(error_of(lambda: disk.open(f"{base}/missing")))
    log.append(error_of(lambda: disk.open(f"{base}/missing/file", create=True)))
    log.append(error_of(lambda: disk.open(f"{base}/a")))
    log.append(error_of(lambda: disk.list(f"{base}/missing")))
    log.append(error_of(lambda: disk.list(f"{base}/a/b/file")))
    log.append(error_of(lambda: disk.open(f"{base}/a/b/file/below", create=True)))
    log.append(error_of(lambda: disk.make_dir(f"{base}/a/b/file")))
    log.append(error_of(lambda: disk.rename(f"{base}/missing", f"{base}/other")))
    disk.open(f"{base}/a/b/second", create=True).close()
    disk.rename(f"{base}/a/b/file", f"{base}/a/b/second")
    log += [disk.list(f"{base}/a/b"), disk.exists(f"{base}/a/b/file"), disk.exists(f"{base}/a/b/second/x")]
    log.append(file.read(0, 5))  # an open file remains readable after its name is removed
    disk.rename(f"{base}/a", f"{base}/c")
    log += [disk.list(base), disk.list(f"{base}/c/b")]
    await disk.sync_dir(base)
    await disk.sync_dir(f"{base}/missing")
    lock = disk.lock(f"{base}/lock")
    log.append(error_of(lambda: disk.lock(f"{base}/lock")))
    lock.release()
    disk.lock(f"{base}/lock").release()
    await disk.remove(f"{base}/c")
    await disk.remove(f"{base}/lock")
    await disk.remove(f"{base}/missing")
    log.append(disk.list(base))
    file.close()
    file.close()
    log.append(error_of(lambda: file.read(0, 1)))
    return log


async def test_ordinary_use_is_the_same_on_the_real_disk(tmp_path: Path) -> None:
    real = await ordinary_use(RealDisk(), str(tmp_path))
    simulated: list[object] = []

    async def main(host: Host, disk: SimulatedDisk) -> None:
        disk.make_dir("/base")
        simulated.extend(await ordinary_use(disk, "/base"))

    await trio.to_thread.run_sync(simulate, main)
    assert simulated == real


def contents(rounds: int, prepare: Callable[[SimulatedDisk], Awaitable[None]], path: str = "/d/f") -> set[bytes | None]:
    """The contents of a file after a power cut, over many seeds; None if it does not exist."""
    found: set[bytes | None] = set()

    async def main(host: Host, disk: SimulatedDisk) -> None:
        await prepare(disk)
        host.power_cut()
        after = disk_of(host)
        try:
            found.add(after.open(path).read(0, 100))
        except FileNotFoundError:
            found.add(None)

    for seed in range(rounds):
        simulate(main, str(seed))
    return found


async def make_durable(disk: SimulatedDisk, content: bytes = b"") -> None:
    disk.make_dir("/d")
    file = disk.open("/d/f", create=True)
    file.write(0, (content,))
    await file.sync()
    await disk.sync_dir("/d")
    await disk.sync_dir("/")


def test_synced_data_survives_a_power_cut() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk, b"safe")

    assert contents(10, prepare) == {b"safe"}


def test_of_unsynced_writes_anything_may_survive_and_nothing_else() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk, b"safe")
        file = disk.open("/d/f")
        file.write(4, (b"AA",))
        file.write(6, (b"BB",))

    assert contents(200, prepare) == {b"safe", b"safeA", b"safeAA", b"safeAAB", b"safeAABB", b"safe\0\0BB"}


def test_an_unsynced_truncation_may_be_forgotten() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk, b"safe")
        disk.open("/d/f").truncate(1)

    assert contents(50, prepare) == {b"safe", b"s"}


def test_a_synced_file_needs_a_synced_name() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        disk.make_dir("/d")
        file = disk.open("/d/f", create=True)
        file.write(0, (b"safe",))
        await file.sync()
        await disk.sync_dir("/d")

    assert contents(50, prepare) == {b"safe", None}


def test_a_rename_happens_whole_or_not_at_all() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk, b"old")
        file = disk.open("/d/f.tmp", create=True)
        file.write(0, (b"new",))
        await file.sync()
        await disk.sync_dir("/d")
        disk.rename("/d/f.tmp", "/d/f")

    assert contents(50, prepare) == {b"old", b"new"}


def test_a_rename_before_the_content_is_synced_may_leave_an_empty_file() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk, b"old")
        disk.open("/d/f.tmp", create=True).write(0, (b"new",))
        disk.rename("/d/f.tmp", "/d/f")

    assert {b"", b"old", b"new"} <= contents(100, prepare)


def test_a_failed_fsync_leaves_pages_that_read_well_and_no_later_fsync_saves() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk)
        file = disk.open("/d/f")
        file.write(0, (b"lost",))
        disk.volume.sync_failures = 1.0
        with pytest.raises(FsyncFailed):
            await file.sync()
        disk.volume.sync_failures = 0.0
        await file.sync()
        assert file.read(0, 10) == b"lost"

    assert contents(30, prepare) == {b"", b"lost"}


def test_a_failed_fsync_loses_no_truncation() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk, b"long")
        file = disk.open("/d/f")
        file.truncate(2)
        disk.volume.sync_failures = 1.0
        with pytest.raises(FsyncFailed):
            await file.sync()
        disk.volume.sync_failures = 0.0
        await file.sync()

    assert contents(30, prepare) == {b"lo"}


def test_writing_again_after_a_failed_fsync_saves_it() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk)
        file = disk.open("/d/f")
        file.write(0, (b"saved",))
        disk.volume.sync_failures = 1.0
        with pytest.raises(FsyncFailed):
            await file.sync()
        disk.volume.sync_failures = 0.0
        file.write(0, (file.read(0, 10),))
        await file.sync()

    assert contents(30, prepare) == {b"saved"}


def test_sync_covers_the_writes_before_its_begin() -> None:
    async def prepare(disk: SimulatedDisk) -> None:
        await make_durable(disk)
        file = disk.open("/d/f")
        file.write(0, (b"before",))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.sync)
            nursery.start_soon(file.sync)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            file.write(6, (b"after",))

    assert {content[:6] for content in contents(50, prepare) if content is not None} == {b"before"}
    assert b"before" in contents(50, prepare)


def test_a_kill_keeps_the_page_cache_and_drops_locks() -> None:
    async def main(host: Host, disk: SimulatedDisk) -> None:
        disk.lock("/lock")
        disk.open("/f", create=True).write(0, (b"cached",))
        host.kill()
        after = disk_of(host)
        assert after.open("/f").read(0, 10) == b"cached"
        after.lock("/lock")

    simulate(main)


def test_a_ghost_reaches_nothing() -> None:
    async def main(host: Host, disk: SimulatedDisk) -> None:
        file = disk.open("/f", create=True)
        host.kill()
        for action in (lambda: file.write(0, (b"x",)), lambda: disk.open("/f"), lambda: disk.list("/"), file.size):
            with pytest.raises(OSError, match="Input/output error"):
                action()
        file.close()

    simulate(main)


def test_a_full_disk_takes_no_growth_but_lets_overwrite() -> None:
    async def main(host: Host, disk: SimulatedDisk) -> None:
        file = disk.open("/f", create=True)
        file.write(0, (b"12345",))
        host.volume.is_full = True
        file.write(0, (b"54321",))
        with pytest.raises(OSError, match="No space left"):
            file.write(3, (b"abcdefgh",))
        assert b"54321"[:3] == file.read(0, 3)
        assert len(file.read(0, 100)) < 11
        with pytest.raises(OSError, match="No space left"):
            disk.open("/g", create=True)
        assert host.volume.faults_met == 2

    simulate(main)


def test_a_stalled_disk_finishes_when_it_recovers() -> None:
    async def main(host: Host, disk: SimulatedDisk) -> None:
        file = disk.open("/f", create=True)
        host.volume.is_stalled = True
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(file.sync)
                await trio.sleep(100)
                scope.cancel()  # an fsync is a thread in a system call, which cannot be cancelled
                with trio.CancelScope(shield=True):
                    await trio.sleep(100)
                host.volume.is_stalled = False
        assert trio.current_time() >= 200

    simulate(main)


def test_fates_are_drawn_from_the_seed() -> None:
    async def main(host: Host, disk: SimulatedDisk) -> None:
        file = disk.open("/f", create=True)
        rng = Random(5)
        for _ in range(50):
            file.write(rng.randrange(1000), (rng.randbytes(10),))
            await file.sync()
        host.power_cut()

    assert simulate(main, "1").trace.digest == simulate(main, "1").trace.digest
    assert simulate(main, "1").trace.digest != simulate(main, "2").trace.digest
