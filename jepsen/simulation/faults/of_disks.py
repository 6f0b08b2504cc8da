"""Faults that befall disks."""

import trio

from jepsen.simulation.faults.fault import Strike

HOLD_SECONDS_MAX = 8.0


async def hold(strike: Strike) -> None:
    await trio.sleep(strike.rng.uniform(0.05, HOLD_SECONDS_MAX))


class DiskFull:
    """No file grows, and none is made."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.is_full = True
        await hold(strike)
        volume.is_full = False


class DiskSlow:
    """Every fsync takes many times as long."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.slowness = strike.rng.choice((10, 50, 300))
        await hold(strike)
        volume.slowness = 1.0


class DiskStalled:
    """No fsync finishes."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.is_stalled = True
        await hold(strike)
        volume.is_stalled = False


class FsyncFails:
    """fsync fails now and then, having lost what it should have written."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.sync_failures = strike.rng.choice((0.1, 0.5))
        await hold(strike)
        volume.sync_failures = 0.0


class DiskBroken:
    """Nothing can be written."""

    async def strike(self, strike: Strike) -> None:
        volume = strike.a_node().volume
        volume.broken = ("/",)
        await hold(strike)
        volume.broken = ()
