"""Injects faults of the permitted kinds, one after another, sometimes two at a time."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import trio

from jepsen.processes.faults.disk_faults import DiskFull
from jepsen.processes.faults.fault_context import Fault, FaultContext
from jepsen.processes.faults.network_faults import (
    Bridge,
    Flapping,
    Halves,
    IsolateClient,
    IsolateController,
    IsolateCoordinator,
    IsolateLeader,
    Lossy,
    MajorityRing,
    OneWay,
    Reset,
    Slow,
)
from jepsen.processes.faults.process_faults import Kill, KillCoordinator, KillLeader, Pause, Restart
from jepsen.processes.nodes import NodeFailed

FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {
        "kill": Kill(),
        "kill-leader": KillLeader(),
        "kill-coordinator": KillCoordinator(),
        "pause": Pause(),
        "restart": Restart(),
        "disk-full": DiskFull(),
        "halves": Halves(),
        "majority-ring": MajorityRing(),
        "bridge": Bridge(),
        "one-way": OneWay(),
        "flapping": Flapping(),
        "isolate-leader": IsolateLeader(),
        "isolate-controller": IsolateController(),
        "isolate-coordinator": IsolateCoordinator(),
        "isolate-client": IsolateClient(),
        "slow": Slow(),
        "lossy": Lossy(),
        "reset": Reset(),
    }
)
# The chance that a second kind strikes at the same time, where several are allowed.
_TOGETHER: Final = 0.3


class Nemesis:
    """`kinds` are names of FAULTS. A fault lasts for `fault_seconds` on average, and `peace_seconds` pass until the
    next. Nodes that do not start or stop when requested are recorded in the context's history.
    """

    def __init__(self, kinds: Sequence[str], fault_seconds: float, peace_seconds: float) -> None:
        self._kinds = kinds
        self._deck: list[str] = []
        self._fault_seconds = fault_seconds
        self._peace_seconds = peace_seconds

    async def run(self, context: FaultContext, seconds: float) -> None:
        """Inject faults for the given time, then wait until the last one has ended."""
        until = context.now() + seconds
        while (left := until - context.now()) > 0:
            await trio.sleep(min(left, context.rng.uniform(0.5, 1.5) * self._peace_seconds))
            if self._kinds and context.now() < until:
                await self._strike(context)

    async def _strike(self, context: FaultContext) -> None:
        count = 2 if len(self._kinds) > 1 and context.rng.random() < _TOGETHER else 1
        async with trio.open_nursery() as nursery:
            for kind in self._draw(context, count):
                nursery.start_soon(_strike, FAULTS[kind], context, context.rng.uniform(0.5, 1.5) * self._fault_seconds)

    def _draw(self, context: FaultContext, count: int) -> list[str]:
        """Draw different kinds. No kind is drawn again before all others were drawn."""
        drawn: list[str] = []
        while len(drawn) < count:
            if not self._deck:
                self._deck = context.rng.sample(self._kinds, len(self._kinds))
            kind = self._deck.pop()
            if kind not in drawn:
                drawn.append(kind)
        return drawn


async def _strike(fault: Fault, context: FaultContext, seconds: float) -> None:
    try:
        await fault.inject(context, seconds)
    except NodeFailed as error:
        context.record_node_failure(str(error))
