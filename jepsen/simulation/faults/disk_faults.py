"""Faults of disks."""

import trio

from jepsen.simulation.faults.fault import FaultInjection

HOLD_SECONDS_MAX = 8.0


async def hold(injection: FaultInjection) -> None:
    await trio.sleep(injection.rng.uniform(0.05, HOLD_SECONDS_MAX))


class DiskFull:
    """The disk is full: no file can grow or be created."""

    async def inject(self, injection: FaultInjection) -> None:
        volume = injection.random_victim().volume
        volume.is_full = True
        await hold(injection)
        volume.is_full = False


class DiskSlow:
    """Every fsync takes 10 to 300 times as long."""

    async def inject(self, injection: FaultInjection) -> None:
        volume = injection.random_victim().volume
        volume.slowness = injection.rng.choice((10, 50, 300))
        await hold(injection)
        volume.slowness = 1.0


class DiskStalled:
    """No fsync completes."""

    async def inject(self, injection: FaultInjection) -> None:
        volume = injection.random_victim().volume
        volume.is_stalled = True
        await hold(injection)
        volume.is_stalled = False


class FsyncFails:
    """Some fsyncs fail, and lose the data that they should have written."""

    async def inject(self, injection: FaultInjection) -> None:
        volume = injection.random_victim().volume
        volume.sync_failures = injection.rng.choice((0.1, 0.5))
        await hold(injection)
        volume.sync_failures = 0.0


class FsyncThenPower:
    """An fsync fails, the process restarts and reads pages that are not durable, and then the power is cut."""

    async def inject(self, injection: FaultInjection) -> None:
        host = injection.random_victim()
        host.volume.sync_failures = 1.0
        with trio.move_on_after(HOLD_SECONDS_MAX):
            await host.ended.wait()
        host.volume.sync_failures = 0.0
        await trio.sleep(injection.rng.uniform(0, HOLD_SECONDS_MAX))
        injection.cluster.crash(host, power=True, down_seconds=0)


class DiskBroken:
    """All writes fail."""

    async def inject(self, injection: FaultInjection) -> None:
        volume = injection.random_victim().volume
        volume.broken = ("/",)
        await hold(injection)
        volume.broken = ()
