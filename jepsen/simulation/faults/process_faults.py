"""Faults of processes, their machines and their clocks."""

import trio

from jepsen.simulation.faults.fault import Strike

DOWN_SECONDS_MAX = 4.0
PAUSE_SECONDS_MAX = 12.0
STOP_TIMEOUT_SECONDS = 10.0
# Below message.timestamp.after.max.ms (an hour), so that records with the right time are accepted.
WALL_JUMP_SECONDS_MAX = 1_800.0


class Kill:
    """kill -9."""

    async def strike(self, strike: Strike) -> None:
        for host in strike.some_nodes():
            strike.cluster.crash(host, power=False, down_seconds=strike.rng.uniform(0, DOWN_SECONDS_MAX))


class PowerCut:
    """A power cut, which loses data that was not synced."""

    async def strike(self, strike: Strike) -> None:
        for host in strike.some_nodes():
            strike.cluster.crash(host, power=True, down_seconds=strike.rng.uniform(0, DOWN_SECONDS_MAX))


class RepeatedCrash:
    """One node is killed several times, usually before it has recovered from the previous time."""

    async def strike(self, strike: Strike) -> None:
        host = strike.a_node()
        for _ in range(strike.rng.randint(3, 8)):
            strike.cluster.crash(host, power=strike.rng.random() < 0.5, down_seconds=0)
            await trio.sleep(0.5 + strike.rng.choice((0.0, 0.002, 0.01, 0.1)) * strike.rng.random())
            await trio.sleep(strike.rng.choice((0.001, 0.005, 0.02, 0.5)))


class Restart:
    """A clean shutdown, ended by kill -9 if it takes too long."""

    async def strike(self, strike: Strike) -> None:
        await strike.cluster.stop(
            strike.a_node(),
            timeout_seconds=STOP_TIMEOUT_SECONDS,
            down_seconds=strike.rng.uniform(0, DOWN_SECONDS_MAX),
        )


class Pause:
    """SIGSTOP, and SIGCONT after a while."""

    async def strike(self, strike: Strike) -> None:
        hosts = strike.some_nodes()
        for host in hosts:
            host.pause()
        await trio.sleep(strike.rng.uniform(0, PAUSE_SECONDS_MAX))
        for host in hosts:
            host.resume()


class WallClock:
    """Wall clocks jump by up to half an hour, and jump back."""

    async def strike(self, strike: Strike) -> None:
        hosts = strike.some_nodes()
        for host in hosts:
            host.wall_offset_s = strike.rng.uniform(-WALL_JUMP_SECONDS_MAX, WALL_JUMP_SECONDS_MAX)
        await trio.sleep(strike.rng.uniform(0, 5))
        for host in hosts:
            host.wall_offset_s = 0.0
