"""Faults of processes, their machines and their clocks."""

import trio

from jepsen.simulation.faults.fault import FaultInjection

DOWN_SECONDS_MAX = 4.0
PAUSE_SECONDS_MAX = 12.0
STOP_TIMEOUT_SECONDS = 10.0
# Below message.timestamp.after.max.ms (an hour), so that records with the right time are accepted.
WALL_JUMP_SECONDS_MAX = 1_800.0


class Kill:
    """kill -9."""

    async def inject(self, injection: FaultInjection) -> None:
        for host in injection.random_victims():
            injection.cluster.crash(host, power=False, down_seconds=injection.rng.uniform(0, DOWN_SECONDS_MAX))


class PowerCut:
    """A power cut, which loses data that was not synced."""

    async def inject(self, injection: FaultInjection) -> None:
        for host in injection.random_victims():
            injection.cluster.crash(host, power=True, down_seconds=injection.rng.uniform(0, DOWN_SECONDS_MAX))


class RepeatedCrash:
    """One node is killed several times, usually before it has recovered from the previous time."""

    async def inject(self, injection: FaultInjection) -> None:
        host = injection.random_victim()
        for _ in range(injection.rng.randint(3, 8)):
            injection.cluster.crash(host, power=injection.rng.random() < 0.5, down_seconds=0)
            await trio.sleep(0.5 + injection.rng.choice((0.0, 0.002, 0.01, 0.1)) * injection.rng.random())
            await trio.sleep(injection.rng.choice((0.001, 0.005, 0.02, 0.5)))


class Restart:
    """A clean shutdown, ended by kill -9 if it takes too long."""

    async def inject(self, injection: FaultInjection) -> None:
        await injection.cluster.stop(
            injection.random_victim(),
            timeout_seconds=STOP_TIMEOUT_SECONDS,
            down_seconds=injection.rng.uniform(0, DOWN_SECONDS_MAX),
        )


class Pause:
    """SIGSTOP, and SIGCONT after a while."""

    async def inject(self, injection: FaultInjection) -> None:
        hosts = injection.random_victims()
        for host in hosts:
            host.pause()
        await trio.sleep(injection.rng.uniform(0, PAUSE_SECONDS_MAX))
        for host in hosts:
            host.resume()


class WallClock:
    """Wall clocks jump by up to half an hour, and jump back."""

    async def inject(self, injection: FaultInjection) -> None:
        hosts = injection.random_victims()
        for host in hosts:
            host.wall_offset_s = injection.rng.uniform(-WALL_JUMP_SECONDS_MAX, WALL_JUMP_SECONDS_MAX)
        await trio.sleep(injection.rng.uniform(0, 5))
        for host in hosts:
            host.wall_offset_s = 0.0
