"""The faults of a test cluster. Each is in force on all of its nodes, also on those that start later, until it ends.

Nodes decide by themselves, and count by themselves. A fault that has fired as many `times` as it may, on all nodes
together, is retired; in the moment until then, another node may fire it once more.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

import attrs
import trio

from jepsen.testing.errors import ActionRefused, BadRequest, NodeNotRunning, NotReached, NotThere
from jepsen.testing.faults import FaultRefused, fault_of
from jepsen.testing.faults.fault import selection_of
from jepsen.testing.hosted_node import HostedNode
from jepsen.testing.node_faults import REQUEST


@attrs.frozen
class FaultSpec:
    """A fault of a kind, in the words of `shown`, which a timeline has, and in those that nodes take.

    It concerns `nodes`, or all if that is None. It is retired after it has fired so many `times`.
    """

    kind: str
    shown: Mapping[str, Any]
    words: Mapping[str, Any]
    nodes: frozenset[int] | None = None
    times: int | None = None

    @classmethod
    def of_requests(cls, words: Mapping[str, Any]) -> "FaultSpec":
        """A fault of the protocol. Raises BadRequest."""
        try:
            fault = fault_of(words)
        except FaultRefused as refused:
            raise BadRequest(str(refused)) from refused
        node = fault.selection.node
        nodes = None if node is None else frozenset([node])
        return cls(REQUEST, words, words, nodes, fault.occurrence.times)

    def concerns(self, node_id: int) -> bool:
        return self.nodes is None or node_id in self.nodes


class ClusterFault:
    """`fired` and `held` are of all nodes together. The firings of a node that has ended still count."""

    def __init__(self, fault_id: str, spec: FaultSpec) -> None:
        self.id = fault_id
        self.spec = spec
        self.is_retired = self.is_ended = False
        self.changed = trio.Event()
        # Set when all nodes that run have ended it, or have refused that.
        self.has_ended = trio.Event()
        # The nodes that were paused when it was retired or ended: it is still in force on them.
        self.still_on: set[int] = set()
        self._fired: dict[tuple[int, int], int] = {}
        self._held: dict[tuple[int, int], int] = {}

    def update(self, node: HostedNode, message: Mapping[str, Any]) -> None:
        """Take a report of a node's process."""
        process = (node.node_id, node.launches)
        self._fired[process], self._held[process] = message["fired"], message["held"]
        self.notify()

    def notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    @property
    def fired(self) -> int:
        return sum(self._fired.values())

    def held(self, nodes: Mapping[int, HostedNode]) -> int:
        return sum(
            held
            for (node_id, launches), held in self._held.items()
            if nodes[node_id].is_running and nodes[node_id].launches == launches
        )


class FaultyNodes(Protocol):
    """The cluster. Tasks run in its `nursery`."""

    nodes: dict[int, HostedNode]
    nursery: trio.Nursery

    def note(self, event: str, **fields: object) -> None: ...


class ClusterFaults:
    """The faults of `cluster`."""

    def __init__(self, cluster: FaultyNodes) -> None:
        self._cluster = cluster
        self._faults: dict[str, ClusterFault] = {}
        self._ids = count(1)

    def words_for(self, node_id: int) -> dict[str, Mapping[str, Any]]:
        """The faults that a process of a node begins with."""
        return {
            each.id: {"kind": each.spec.kind, "words": each.spec.words}
            for each in self._faults.values()
            if not (each.is_ended or each.is_retired) and each.spec.concerns(node_id)
        }

    def find(self, fault_id: str) -> ClusterFault:
        """Raises NotThere."""
        found = self._faults.get(fault_id)
        if found is None:
            raise NotThere(f"no fault {fault_id}")
        return found

    async def begin(self, spec: FaultSpec) -> ClusterFault:
        """Put a fault in force on the nodes that it concerns and that run. Raises NotThere, ActionRefused."""
        for node_id in sorted(spec.nodes or ()):
            if node_id not in self._cluster.nodes:
                raise NotThere(f"no node {node_id}; there are {', '.join(map(str, self._cluster.nodes))}")
        begun = ClusterFault(f"fault-{next(self._ids)}", spec)
        self._faults[begun.id] = begun
        self._cluster.note("fault_began", fault=begun.id, **spec.shown)
        try:
            await self._command(begun, "begin_fault", kind=spec.kind, words=spec.words)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.end(begun)
            raise
        return begun

    async def release(self, fault: ClusterFault) -> None:
        """Release the requests that it holds now."""
        await self._command(fault, "release_fault")

    async def end(self, fault: ClusterFault) -> dict[str, Any]:
        """Fire no more, and release the held requests. Returns its last counts and firings.

        If another task ends it, wait for that. It can still be described.
        """
        if fault.is_ended:
            await fault.has_ended.wait()
            return await self.describe(fault)
        fault.is_ended = True
        fault.still_on |= self._paused()
        try:
            # A node counts and describes it in the same turn in which it ends it, so that no firing is left out.
            return self._described(fault, await self._command(fault, "end_fault"))
        finally:
            self._cluster.note("fault_ended", fault=fault.id, fired=fault.fired)
            fault.notify()
            fault.has_ended.set()

    async def end_all(self) -> list[str]:
        """End all faults. Returns the ids of those that were in force."""
        ended = [fault for fault in self._faults.values() if not fault.is_ended]
        for fault in ended:
            await self.end(fault)
        return [fault.id for fault in ended]

    async def catch_up(self, node: HostedNode) -> None:
        """Begin, retire or end the faults that have begun, or fired for the last time, or ended while it was paused."""
        for fault in list(self._faults.values()):
            with suppress(NodeNotRunning):
                if node.node_id in fault.still_on:
                    fault.still_on.remove(node.node_id)
                    await node.call("end_fault" if fault.is_ended else "retire_fault", fault=fault.id)
                elif fault.spec.concerns(node.node_id) and not (fault.is_ended or fault.is_retired):
                    await node.call("begin_fault", fault=fault.id, kind=fault.spec.kind, words=fault.spec.words)

    async def describe(self, fault: ClusterFault) -> dict[str, Any]:
        """Its counts, and the firings on the nodes that run."""
        return self._described(fault, await self._command(fault, "describe_fault"))

    def _described(self, fault: ClusterFault, answers: list[tuple[HostedNode, Any]]) -> dict[str, Any]:
        firings = []
        for node, described in answers:
            if described is not None:
                fault.update(node, described)
                firings += described["firings"]
        firings.sort(key=lambda firing: firing["at"])
        return {**self.counts(fault), "firings": firings}

    def counts(self, fault: ClusterFault) -> dict[str, Any]:
        held = fault.held(self._cluster.nodes)
        return {"id": fault.id, "fired": fault.fired, "held": held, "ended": fault.is_ended}

    async def wait(self, fault: ClusterFault, word: str, wanted: int, timeout_s: float) -> None:
        """Wait until it has `fired`, or has `held`, so often. Raises ActionRefused if it is ended, NotReached."""
        with trio.move_on_after(timeout_s):
            while self.counts(fault)[word] < wanted:
                if fault.is_ended:
                    raise ActionRefused(f"{fault.id} has ended, with {word}={self.counts(fault)[word]}")
                await fault.changed.wait()
            return
        words = ", ".join(f"{name}={value!r}" for name, value in fault.spec.shown.items())
        problem = f"{word}={self.counts(fault)[word]}, not {wanted}, after {timeout_s:g} s"
        raise NotReached(f"{fault.id} ({words}): {problem}; `requests` has the requests that the nodes got")

    async def list_requests(self, words: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The latest requests of all nodes that a selection concerns, in the order of their times."""
        try:
            selection_of(words)
        except FaultRefused as refused:
            raise BadRequest(str(refused)) from refused
        found = []
        for node in self._running():
            with suppress(NodeNotRunning):
                found.append(await node.call("list_requests", words=words))
        return sorted((served for of_node in found for served in of_node), key=lambda served: served["at"])

    def update(self, node: HostedNode, message: Mapping[str, Any]) -> None:
        """Take a report of a node."""
        fault = self._faults.get(message["fault"])
        if fault is None:
            return
        fault.update(node, message)
        times = fault.spec.times
        if times is not None and fault.fired >= times and not fault.is_retired:
            fault.is_retired = True
            fault.still_on |= self._paused()
            self._cluster.nursery.start_soon(self._retire, fault)

    async def _retire(self, fault: ClusterFault) -> None:
        try:
            await self._command(fault, "retire_fault")
        except ActionRefused as refused:
            self._cluster.note("action_refused", action="retire_fault", reason=str(refused))

    async def _command(self, fault: ClusterFault, command: str, **arguments: object) -> list[tuple[HostedNode, Any]]:
        """The answers of the nodes that it concerns and that run."""
        answers = []
        for node in self._running():
            if fault.spec.concerns(node.node_id):
                with suppress(NodeNotRunning):  # a later process begins with the faults that are in force then
                    answers.append((node, await node.call(command, fault=fault.id, **arguments)))
        return answers

    def _paused(self) -> set[int]:
        return {node_id for node_id, node in self._cluster.nodes.items() if node.is_paused}

    def _running(self) -> list[HostedNode]:
        """The nodes that answer commands: a paused one does not."""
        nodes = self._cluster.nodes.values()
        return [node for node in nodes if node.is_running and not node.is_paused]
