"""Links that are cut, slow or unreliable. Clients reach all nodes, except where a fault is about clients."""

from collections.abc import Sequence
from typing import Final

import trio

from jepsen.processes.faults.stage import Stage, between
from jepsen.processes.links import LinkConditions, Pair
from jepsen.processes.nodes import NodeProcess

# How long a flapping link keeps its state.
_FLAP_SECONDS: Final = (0.1, 1.5)
_RESET_SECONDS: Final = (0.05, 1.0)


class Halves:
    """Two groups that cannot reach each other."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        names = _shuffled(stage)
        size = len(names) // 2
        await _cut(stage, "halves", names[:size], between(names[:size], names[size:]), seconds)


class MajorityRing:
    """Every node reaches a majority, its neighbours in a ring, and no two nodes the same majority."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        names = _shuffled(stage)
        await _cut(stage, "majority-ring", names, ring_cuts(names), seconds)


class Bridge:
    """Two groups cannot reach each other, and one node reaches both."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        bridge, *others = _shuffled(stage)
        size = len(others) // 2
        detail = f"over {bridge}"
        await _cut(stage, "bridge", others[:size], between(others[:size], others[size:]), seconds, detail)


class OneWay:
    """A node that receives nothing, or whose messages are lost."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        victim, *others = _shuffled(stage)
        is_deaf = stage.rng.random() < 0.5
        pairs = [(other, victim) if is_deaf else (victim, other) for other in others]
        detail = "hears nobody" if is_deaf else "is heard by nobody"
        await _cut(stage, "one-way", [victim], pairs, seconds, detail)


class IsolateLeader:
    """A partition's leader is cut off from the other nodes. Clients reach it."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        found = await stage.partition_leader()
        if found is not None:
            await _isolate(stage, "isolate-leader", found[0], seconds, f"of partition {found[1].partition}")


class IsolateController:
    """The active controller is cut off from the other nodes."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        controller = await stage.controller()
        if controller is not None:
            await _isolate(stage, "isolate-controller", controller, seconds)


class IsolateCoordinator:
    """A group's coordinator is cut off from the other nodes. Members reach it."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        found = await stage.coordinator()
        if found is not None:
            await _isolate(stage, "isolate-coordinator", found[0], seconds, f"of {found[1]}")


class IsolateClient:
    """A client that reaches no node, or just one, or all of them one way only."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        client = stage.rng.choice(list(stage.cluster.clients))
        spared = stage.rng.choice([None, None, *stage.names])
        pairs = between([client], [name for name in stage.names if name != spared])
        chance = stage.rng.random()
        if chance < 0.5:
            pairs = [pair for pair in pairs if pair[0 if chance < 0.25 else 1] == client]
        await _cut(stage, "isolate-client", [client], pairs, seconds, "" if spared is None else f"but for {spared}")


class Flapping:
    """Links that are cut and mended again and again, each way by itself."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        victim, *others = _shuffled(stage)
        pairs = between([victim], others)
        with stage.recorded("flapping", [victim]):
            until = stage.now() + seconds
            while stage.now() < until:
                cut = [pair for pair in pairs if stage.rng.random() < 0.5]
                with stage.cut(cut):
                    await trio.sleep(stage.rng.uniform(*_FLAP_SECONDS))


class Slow:
    """Links that delay all bytes."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        longest = stage.rng.choice((0.02, 0.1, 0.5))
        conditions = LinkConditions(stage.rng, delays=(longest / 4, longest))
        await _under_conditions(stage, "slow", conditions, seconds, f"up to {1000 * longest:.0f} ms")


class Lossy:
    """Links that lose segments: TCP sends them again, later."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        conditions = LinkConditions(stage.rng, loss=stage.rng.choice((0.05, 0.2)))
        await _under_conditions(stage, "lossy", conditions, seconds, f"{conditions.loss:.0%} lost")


class Reset:
    """Connections, also those of clients, are reset repeatedly. Requests in transit may have arrived."""

    async def strike(self, stage: Stage, seconds: float) -> None:
        pairs, _ = _some_links(stage)
        with stage.recorded("reset", _machines(pairs)):
            until = stage.now() + seconds
            while stage.now() < until:
                stage.cluster.links.reset(stage.rng.sample(pairs, 2))
                await trio.sleep(stage.rng.uniform(*_RESET_SECONDS))


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


async def _isolate(stage: Stage, kind: str, node: NodeProcess, seconds: float, detail: str = "") -> None:
    others = [name for name in stage.names if name != node.name]
    await _cut(stage, kind, [node.name], between([node.name], others), seconds, detail)


async def _cut(
    stage: Stage, kind: str, targets: Sequence[str], pairs: Sequence[Pair], seconds: float, detail: str = ""
) -> None:
    with stage.recorded(kind, targets, detail), stage.cut(pairs):
        await trio.sleep(seconds)


async def _under_conditions(stage: Stage, kind: str, conditions: LinkConditions, seconds: float, detail: str) -> None:
    pairs, targets = _some_links(stage)
    links = stage.cluster.links
    with stage.recorded(kind, targets, detail):
        links.change_conditions(pairs, conditions)
        try:
            await trio.sleep(seconds)
        finally:
            links.change_conditions(pairs, None)


def _some_links(stage: Stage) -> tuple[list[Pair], list[str]]:
    """All links, or those of one machine, with the names of the affected machines."""
    links = stage.cluster.links
    if stage.rng.random() < 0.4:
        return links.pairs, stage.names
    machine = stage.rng.choice([*stage.names, *stage.names, *stage.cluster.clients])
    return [pair for pair in links.pairs if machine in pair], [machine]


def _machines(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in pair))


def _shuffled(stage: Stage) -> list[str]:
    return stage.rng.sample(stage.names, len(stage.names))
