"""Faults of disks."""

import trio

from jepsen.simulation.faults.fault import Strike

HOLD_SECONDS_MAX = 8.0


async def hold(strike: Strike) -> None:
    await trio.sleep(strike.rng.uniform(0.05, HOLD_SECONDS_MAX))


class DiskFull:
    """The disk is full: no file can grow or be created."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.is_full = True
        await hold(strike)
        volume.is_full = False


class DiskSlow:
    """Every fsync takes 10 to 300 times as long."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.slowness = strike.rng.choice((10, 50, 300))
        await hold(strike)
        volume.slowness = 1.0


class DiskStalled:
    """No fsync completes."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.is_stalled = True
        await hold(strike)
        volume.is_stalled = False


class FsyncFails:
    """Some fsyncs fail, and lose the data that they should have written."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.sync_failures = strike.rng.choice((0.1, 0.5))
        await hold(strike)
        volume.sync_failures = 0.0


class FsyncThenPower:
    """An fsync fails, the process restarts and reads pages that are not durable, and then the power is cut."""

    async def strike(self, strike: Strike) -> None:
        host = strike.a_node()
        host.volume.sync_failures = 1.0
        with trio.move_on_after(HOLD_SECONDS_MAX):
            await host.ended.wait()
        host.volume.sync_failures = 0.0
        await trio.sleep(strike.rng.uniform(0, HOLD_SECONDS_MAX))
        strike.cluster.crash(host, power=True, down_seconds=0)


class DiskBroken:
    """All writes fail."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.broken = ("/",)
        await hold(strike)
        volume.broken = ()
