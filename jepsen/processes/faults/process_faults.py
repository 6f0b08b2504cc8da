"""Processes that are killed, paused, or stopped and restarted."""

from contextlib import suppress
from typing import Final

import trio

from jepsen.processes.faults.stage import Stage
from jepsen.processes.nodes import EndedByItself, NodeProcess

# The probability that the victim is a partition's leader or the active controller.
_AIMED: Final = 0.3
# The probability that the victims are a majority, or all nodes.
_MANY: Final = 0.15


class Kill:
    """kill -9 of one or several nodes, and a restart. The page cache survives."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        victims = await _victims(stage)
        if not victims:
            return
        with stage.claimed(victims), stage.recorded("kill", [each.name for each in victims]):
            for victim in victims:
                await victim.kill()
            await trio.sleep(seconds * stage.rng.random())
            await start_together(victims)


class KillLeader:
    """kill -9 of a partition's leader."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        found = await stage.partition_leader()
        if found is None or found[0] not in stage.healthy():
            return
        victim, partition = found
        with (
            stage.claimed([victim]),
            stage.recorded("kill-leader", [victim.name], f"of partition {partition.partition}"),
        ):
            await victim.kill()
            await trio.sleep(seconds / 2)
            await start_together([victim])


class KillCoordinator:
    """kill -9 of a group's coordinator."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        found = await stage.coordinator()
        if found is None or found[0] not in stage.healthy():
            return
        victim, group = found
        with stage.claimed([victim]), stage.recorded("kill-coordinator", [victim.name], f"of {group}"):
            await victim.kill()
            await trio.sleep(seconds / 2)
            await start_together([victim])


class Pause:
    """SIGSTOP: a process that continues does not know that time has passed."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        victims = await _victims(stage)
        with stage.claimed(victims), stage.recorded("pause", [each.name for each in victims]):
            for victim in victims:
                victim.pause()
            try:
                await trio.sleep(seconds)
            finally:
                for victim in victims:
                    victim.resume()


class Restart:
    """SIGTERM and another start, one node after the other."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        for victim in stage.healthy():
            if victim not in stage.healthy():
                continue
            with stage.claimed([victim]), stage.recorded("restart", [victim.name]):
                await victim.stop()
                await start_together([victim])
            await trio.sleep(seconds / len(stage.names))


async def _victims(stage: Stage) -> list[NodeProcess]:
    """Some nodes that are not the victims of another fault."""
    healthy, rng = stage.healthy(), stage.rng
    chance = rng.random()
    if chance < _AIMED:
        found = await stage.partition_leader()
        aimed = found[0] if found else None
    elif chance < 2 * _AIMED:
        aimed = await stage.controller()
    else:
        aimed = None
    if aimed is not None:
        return [each for each in stage.healthy() if each is aimed]
    many = rng.choice((len(stage.names) // 2 + 1, len(stage.names)))
    return rng.sample(healthy, min(len(healthy), many if rng.random() < _MANY else 1))


async def start_together(nodes: list[NodeProcess]) -> None:
    """A process that ends again is restarted by the supervisor of the nodes."""
    for node in nodes:
        await node.start()
    for node in nodes:
        with suppress(EndedByItself):
            await node.wait_serving()
