"""Carries out a plan of faults on a test cluster, and heals what they have broken."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from jepsen.testing.actions import Action
from jepsen.testing.chaos.chaos_plan import ChaosSpec, PlannedFault
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import ControlRefused, failures_refused
from jepsen.testing.fault_routes import change
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.hosted_node import HostedNode
from jepsen.testing.link_routes import begin_link
from jepsen.testing.machine_routes import begin_clock_fault, begin_disk_fault
from jepsen.testing.targets import read_target
from jepsen.testing.words import Words

_ACTIONS: Final = ("kill", "pause", "stop")
_FAULTS: Final[Mapping[str, Callable[[HostedCluster, Words], Awaitable[Any]]]] = {
    "slow-sync": begin_disk_fault,
    "clock": begin_clock_fault,
}
_CHANGES: Final = {"move-leader": "move_leader"}
_BEGAN: Final = "chaos_began"


class ChaosRun:
    """`done` counts the faults that have begun, `refused` those that could not. `ended` is set once all is healed.

    A fault begins when the one before is healed, and not before its time.
    """

    def __init__(self, run_id: str, spec: ChaosSpec, plan: list[PlannedFault], cluster: HostedCluster) -> None:
        self.id = run_id
        self.spec = spec
        self.plan = plan
        self.done = self.refused = 0
        self.ended = trio.Event()
        self._cluster = cluster
        self._scope = trio.CancelScope()
        self._healing = trio.CancelScope()

    def described(self) -> dict[str, Any]:
        """The run as the control port describes it."""
        return {
            "id": self.id,
            "seed": self.spec.seed,
            "replay": self.spec.replay,
            "plan": [{"fault": each.kind, "at": each.at, "seconds": each.lasts_s, **each.words} for each in self.plan],
            "done": self.done,
            "refused": self.refused,
            "ended": self.ended.is_set(),
        }

    async def run(self) -> None:
        """Begin and end the faults, until the time is over or `end` is called."""
        self._cluster.note(_BEGAN, chaos=self.id, replay=self.spec.replay)
        began = trio.current_time()
        try:
            with self._scope:
                for planned in self.plan:
                    await trio.sleep_until(began + planned.at)
                    await self._carry_out(planned)
                await trio.sleep_until(began + self.spec.seconds)
        finally:
            self._cluster.note("chaos_ended", chaos=self.id, faults=self.done, refused=self.refused)
            self.ended.set()

    async def end(self) -> None:
        """Begin no more faults. All are healed on return."""
        self._healing.shield = True
        self._scope.cancel()
        await self.ended.wait()

    async def _carry_out(self, planned: PlannedFault) -> None:
        """One fault from its begin to its end. It is also healed if the run is ended meanwhile."""
        try:
            with failures_refused():
                await self._break_and_heal(planned)
        except ControlRefused as refused:
            # As where the node with the role has no process any more, or no other replica is in sync.
            self.refused += 1
            self._cluster.note("chaos_refused", chaos=self.id, kind=planned.kind, reason=str(refused))

    async def _break_and_heal(self, planned: PlannedFault) -> None:
        cluster, kind = self._cluster, planned.kind
        if kind in _CHANGES:
            await change(cluster, Words({"change": _CHANGES[kind], **planned.words}))
            self.done += 1
            return
        if kind not in _ACTIONS:
            begun = await _FAULTS.get(kind, begin_link)(cluster, Words(dict(planned.words)))
            fault = cluster.faults.find(begun["id"])
            await self._last(planned, trio.lowlevel.checkpoint, lambda: cluster.faults.end(fault))
            return
        target = read_target(cluster, Words(dict(planned.words)))
        assert target is not None, "a fault of processes names a node"
        node = await target.find(ClusterView(cluster))
        action = Action.read(cluster, Words({"action": kind, "node": node.node_id}))
        await self._last(planned, lambda: action.run(cluster), lambda: _serve_again(cluster, node))

    async def _last(
        self, planned: PlannedFault, begin: Callable[[], Awaitable[object]], heal: Callable[[], Awaitable[object]]
    ) -> None:
        """Begin, and heal after the fault's time, or at once if it fails or the run ends."""
        try:
            await begin()
            self.done += 1
            await trio.sleep(planned.lasts_s)
        finally:
            # The end of the run interrupts no healing; that of the cluster does.
            with trio.CancelScope(shield=self._scope.cancel_called) as self._healing:
                await heal()


async def _serve_again(cluster: HostedCluster, node: HostedNode) -> None:
    """Resume a node that is paused, and start one that has ended or is about to. Raises ControlRefused."""
    if node.is_paused:
        await Action.read(cluster, Words({"action": "resume", "node": node.node_id})).run(cluster)
    elif not node.is_running:
        await node.wait_ended()
        await Action.read(cluster, Words({"action": "start", "node": node.node_id})).run(cluster)
