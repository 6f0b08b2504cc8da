"""Processes that are killed, paused, or stopped and restarted."""

from contextlib import suppress
from typing import Final

import trio

from jepsen.processes.faults.fault_context import FaultContext
from jepsen.processes.nodes import NodeProcess, UnexpectedExit

# The probability that the victim is a partition's leader or the active controller.
_AIMED: Final = 0.3
# The probability that the victims are a majority, or all nodes.
_MANY: Final = 0.15


class Kill:
    """kill -9 of one or several nodes, and a restart. The page cache survives."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        victims = await _victims(context)
        if not victims:
            return
        with context.claimed(victims), context.recorded("kill", [each.name for each in victims]):
            for victim in victims:
                await victim.kill()
            await trio.sleep(seconds * context.rng.random())
            await start_together(victims)


class KillLeader:
    """kill -9 of a partition's leader."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        found = await context.partition_leader()
        if found is None or found[0] not in context.healthy():
            return
        victim, partition = found
        with (
            context.claimed([victim]),
            context.recorded("kill-leader", [victim.name], f"of partition {partition.partition}"),
        ):
            await victim.kill()
            await trio.sleep(seconds / 2)
            await start_together([victim])


class KillCoordinator:
    """kill -9 of the coordinator of a group or of a transactional id."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        found = await context.coordinator()
        if found is None or found[0] not in context.healthy():
            return
        victim, coordinated = found
        with context.claimed([victim]), context.recorded("kill-coordinator", [victim.name], f"of {coordinated}"):
            await victim.kill()
            await trio.sleep(seconds / 2)
            await start_together([victim])


class Pause:
    """SIGSTOP: a process that continues does not know that time has passed."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        victims = await _victims(context)
        with context.claimed(victims), context.recorded("pause", [each.name for each in victims]):
            for victim in victims:
                victim.pause()
            try:
                await trio.sleep(seconds)
            finally:
                for victim in victims:
                    victim.resume()


class Restart:
    """SIGTERM and another start, one node after the other."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        for victim in context.healthy():
            if victim not in context.healthy():
                continue
            with context.claimed([victim]), context.recorded("restart", [victim.name]):
                await victim.stop()
                await start_together([victim])
            await trio.sleep(seconds / len(context.names))


async def _victims(context: FaultContext) -> list[NodeProcess]:
    """Some nodes that are not the victims of another fault."""
    healthy, rng = context.healthy(), context.rng
    chance = rng.random()
    if chance < _AIMED:
        found = await context.partition_leader()
        aimed = found[0] if found else None
    elif chance < 2 * _AIMED:
        aimed = await context.controller()
    else:
        aimed = None
    if aimed is not None:
        return [each for each in context.healthy() if each is aimed]
    many = rng.choice((len(context.names) // 2 + 1, len(context.names)))
    return rng.sample(healthy, min(len(healthy), many if rng.random() < _MANY else 1))


async def start_together(nodes: list[NodeProcess]) -> None:
    """A process that ends again is restarted by the supervisor of the nodes."""
    for node in nodes:
        await node.start()
    for node in nodes:
        with suppress(UnexpectedExit):
            await node.wait_serving()
