"""Nodes that a script controls instead of random faults, with invariants checked on every event."""

from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.invariants import Invariant, Watch
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.trace import Event

# The time limit of every script.
SCRIPT_SECONDS = 600.0


@attrs.define
class ScriptedRun:
    """`events` has all traced events. `violation` is the first violation of an invariant, which ends the run."""

    simulation: Simulation
    cluster: Cluster
    events: list[Event] = attrs.field(factory=list)
    events_by_kind: dict[str, list[Event]] = attrs.field(factory=dict)
    violation: str | None = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def perform(self, invariants: Sequence[Invariant], script: Callable[[], Awaitable[None]]) -> None:
        """Start the nodes, and run the script until it ends or an invariant is violated."""
        self.simulation.trace.listeners += [self.events.append, self._sort]
        Watch(self.simulation.trace, invariants, self.fail)

        async def main() -> None:
            with self.scope, trio.move_on_after(SCRIPT_SECONDS) as time:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.cluster.run)
                    await script()
                    nursery.cancel_scope.cancel()
            if time.cancelled_caught:
                self.fail("Liveness: the play does not end")

        self.simulation.run(main)

    def cut(self, source: str, *targets: str) -> None:
        """Block the links from one node to the others."""
        for target in targets:
            self.simulation.network.links.link(source, target).is_blocked = True

    def part(self, one: str, *others: str) -> None:
        """Block the links from one node to the others, in both directions."""
        for other in others:
            self.cut(one, other)
            self.cut(other, one)

    def _sort(self, event: Event) -> None:
        self.events_by_kind.setdefault(event.kind, []).append(event)

    def fail(self, violation: str) -> None:
        self.violation = self.violation or violation
        self.scope.cancel()
