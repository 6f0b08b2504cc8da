"""Links that are cut, slow or unreliable. Clients reach all nodes, except where a fault is about clients."""

from collections.abc import Sequence
from typing import Final

import trio

from jepsen.processes.faults.fault_context import FaultContext, between
from jepsen.processes.links import LinkConditions, Pair
from jepsen.processes.nodes import NodeProcess

# How long a flapping link keeps its state.
_FLAP_SECONDS: Final = (0.1, 1.5)
_RESET_SECONDS: Final = (0.05, 1.0)


class Halves:
    """Two groups that cannot reach each other."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        names = _shuffled(context)
        size = len(names) // 2
        await _cut(context, "halves", names[:size], between(names[:size], names[size:]), seconds)


class MajorityRing:
    """Every node reaches a majority, its neighbours in a ring, and no two nodes the same majority."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        names = _shuffled(context)
        await _cut(context, "majority-ring", names, ring_cuts(names), seconds)


class Bridge:
    """Two groups cannot reach each other, and one node reaches both."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        bridge, *others = _shuffled(context)
        size = len(others) // 2
        detail = f"over {bridge}"
        await _cut(context, "bridge", others[:size], between(others[:size], others[size:]), seconds, detail)


class OneWay:
    """A node that receives nothing, or whose messages are lost."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        victim, *others = _shuffled(context)
        is_deaf = context.rng.random() < 0.5
        pairs = [(other, victim) if is_deaf else (victim, other) for other in others]
        detail = "receives no messages" if is_deaf else "its messages are lost"
        await _cut(context, "one-way", [victim], pairs, seconds, detail)


class IsolateLeader:
    """A partition's leader is cut off from the other nodes. Clients reach it."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        found = await context.partition_leader()
        if found is not None:
            await _isolate(context, "isolate-leader", found[0], seconds, f"of partition {found[1].partition}")


class IsolateController:
    """The active controller is cut off from the other nodes."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        controller = await context.controller()
        if controller is not None:
            await _isolate(context, "isolate-controller", controller, seconds)


class IsolateCoordinator:
    """The coordinator of a group or of a transactional id is cut off from the other nodes. Clients reach it."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        found = await context.coordinator()
        if found is not None:
            await _isolate(context, "isolate-coordinator", found[0], seconds, f"of {found[1]}")


class IsolateClient:
    """A client that reaches no node, or just one, or all of them one way only."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        client = context.rng.choice(list(context.cluster.clients))
        spared = context.rng.choice([None, None, *context.names])
        pairs = between([client], [name for name in context.names if name != spared])
        chance = context.rng.random()
        if chance < 0.5:
            pairs = [pair for pair in pairs if pair[0 if chance < 0.25 else 1] == client]
        await _cut(context, "isolate-client", [client], pairs, seconds, "" if spared is None else f"but for {spared}")


class Flapping:
    """Links that are cut and mended again and again, each way by itself."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        victim, *others = _shuffled(context)
        pairs = between([victim], others)
        with context.recorded("flapping", [victim]):
            until = context.now() + seconds
            while context.now() < until:
                cut = [pair for pair in pairs if context.rng.random() < 0.5]
                with context.cut(cut):
                    await trio.sleep(context.rng.uniform(*_FLAP_SECONDS))


class Slow:
    """Links that delay all bytes."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        longest = context.rng.choice((0.02, 0.1, 0.5))
        conditions = LinkConditions(context.rng, delays=(longest / 4, longest))
        await _under_conditions(context, "slow", conditions, seconds, f"up to {1000 * longest:.0f} ms")


class Lossy:
    """Links that lose segments: TCP sends them again, later."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        conditions = LinkConditions(context.rng, loss=context.rng.choice((0.05, 0.2)))
        await _under_conditions(context, "lossy", conditions, seconds, f"{conditions.loss:.0%} lost")


class Reset:
    """Connections, also those of clients, are reset repeatedly. Requests in transit may have arrived."""

    async def inject(self, context: FaultContext, seconds: float) -> None:
        pairs, _ = _some_links(context)
        with context.recorded("reset", _machines(pairs)):
            until = context.now() + seconds
            while context.now() < until:
                context.cluster.links.reset(context.rng.sample(pairs, 2))
                await trio.sleep(context.rng.uniform(*_RESET_SECONDS))


def ring_cuts(names: Sequence[str]) -> list[Pair]:
    """The links to cut so that the nodes form a ring. If all are neighbours, each receives from only one other."""
    count = len(names)
    reach = max(1, count // 2 // 2)
    far = [
        (here, there)
        for at, here in enumerate(names)
        for other, there in enumerate(names)
        if min((at - other) % count, (other - at) % count) > reach
    ]
    return far or [(here, names[at - 1]) for at, here in enumerate(names)]


async def _isolate(context: FaultContext, kind: str, node: NodeProcess, seconds: float, detail: str = "") -> None:
    others = [name for name in context.names if name != node.name]
    await _cut(context, kind, [node.name], between([node.name], others), seconds, detail)


async def _cut(
    context: FaultContext, kind: str, targets: Sequence[str], pairs: Sequence[Pair], seconds: float, detail: str = ""
) -> None:
    with context.recorded(kind, targets, detail), context.cut(pairs):
        await trio.sleep(seconds)


async def _under_conditions(
    context: FaultContext, kind: str, conditions: LinkConditions, seconds: float, detail: str
) -> None:
    pairs, targets = _some_links(context)
    links = context.cluster.links
    with context.recorded(kind, targets, detail):
        links.change_conditions(pairs, conditions)
        try:
            await trio.sleep(seconds)
        finally:
            links.change_conditions(pairs, None)


def _some_links(context: FaultContext) -> tuple[list[Pair], list[str]]:
    """All links, or those of one machine, with the names of the affected machines."""
    links = context.cluster.links
    if context.rng.random() < 0.4:
        return links.pairs, context.names
    machine = context.rng.choice([*context.names, *context.names, *context.cluster.clients])
    return [pair for pair in links.pairs if machine in pair], [machine]


def _machines(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in pair))


def _shuffled(context: FaultContext) -> list[str]:
    return context.rng.sample(context.names, len(context.names))
