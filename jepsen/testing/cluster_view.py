"""The present leaders, coordinators and controller of a test cluster, and conditions to wait for.

Nodes are asked over their sockets to the supervisor, so that no fault of the network or of the protocol hides the
answer. The answer with the highest metadata offset counts.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, TypeVar

import trio

from broker.client import Admin
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from jepsen.testing.errors import ActionRefused, NotReached, NotThere
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.hosted_node import HostedNode, NodeState

_LOOK_S: Final = 0.005
_LOOK_MAX_S: Final = 0.05
_ANSWER_S: Final = 1.0
_STABLE: Final = "Stable"
_T = TypeVar("_T")


class ClusterView:
    """A view for one call. Each method that waits raises NotReached after `timeout_s`."""

    def __init__(self, cluster: HostedCluster) -> None:
        self._cluster = cluster
        # Looked up once for each topic that is missing: a view is made for one call.
        self._nearest_topics: dict[str, str | None] = {}

    async def leader_of(
        self, topic: str, partition: int, timeout_s: float, absent_s: float | None = None
    ) -> HostedNode:
        """The leader of a partition, once one serves.

        Raises NotThere if the partition does not exist and is not created within `absent_s`; None waits for it.
        """
        problem = unserved = f"{topic}-{partition} has no leader that serves"
        appears_by = inf if absent_s is None else trio.current_time() + absent_s

        async def look() -> HostedNode | None:
            nonlocal problem
            partitions = await self._partitions(topic)
            absence = await self._absence(topic, partition, partitions)
            if absence is not None and trio.current_time() >= appears_by:
                raise NotThere(absence)
            problem = absence or unserved
            if partitions is None or partition >= len(partitions):
                return None
            return self._serving(partitions[partition]["leader"])

        return await _until(look, lambda: problem, timeout_s)

    async def coordinator_of(self, group: str, timeout_s: float) -> HostedNode:
        """The coordinator of a group, once one serves. The topic of the coordinators is created if it is missing."""
        topic, partition = await self.coordinator_partition(group, None, timeout_s)
        return await self.leader_of(topic, partition, timeout_s)

    async def coordinator_partition(
        self, group: str | None, transactional_id: str | None, timeout_s: float
    ) -> tuple[str, int]:
        """The partition whose leader coordinates a group or a transactional id. The topic of groups is created."""
        if group is not None:
            await self._create_offsets_topic(group)

        async def look() -> tuple[str, int] | None:
            view = await self._ask_latest("view_coordinator", group=group, transactional_id=transactional_id)
            return None if view is None or view["partition"] is None else (view["topic"], view["partition"])

        of = f"transactional id {transactional_id}" if group is None else f"group {group}"
        return await _until(look, f"the coordinators of {of} have no topic", timeout_s)

    async def controller(self, timeout_s: float) -> HostedNode:
        """The active controller, once one serves."""

        async def look() -> HostedNode | None:
            elected = self._cluster.controller
            return None if elected is None else self._serving(elected[0])

        return await _until(look, "no controller is active", timeout_s)

    async def until_in_sync(self, topic: str, partition: int | None, timeout_s: float) -> None:
        """Wait until all replicas of a partition, or of all partitions of the topic, are in sync."""

        of = topic if partition is None else f"{topic}-{partition}"
        problem = unsynced = f"not all replicas of {of} are in sync"

        async def look() -> bool:
            nonlocal problem
            partitions = await self._partitions(topic)
            problem = await self._absence(topic, partition, partitions) or unsynced
            chosen = (partitions or [])[partition : None if partition is None else partition + 1]
            return bool(chosen) and all(sorted(each["isr"]) == sorted(each["replicas"]) for each in chosen)

        await _until(look, lambda: problem, timeout_s)

    async def until_group_stable(self, group: str, timeout_s: float) -> None:
        """Wait until a group has members, and each has its assignment."""
        state = "unknown"

        async def look() -> bool:
            nonlocal state

            async def describe(admin: Admin) -> None:
                nonlocal state
                state = (await admin.describe_groups([group])).value(group).state

            try:
                await self._cluster.administer(describe)
            except ActionRefused as refused:
                state = str(refused)
            return state == _STABLE

        await _until(look, lambda: f"group {group} is not stable: {state}", timeout_s)

    async def until_known(self, topic: str, timeout_s: float) -> None:
        """Wait until all nodes that serve know a topic, and leaders for its partitions."""

        async def look() -> bool:
            views = [await _ask(node, "view_topic", topic=topic) for node in self._serving_nodes()]
            return all(
                view is None or (view["partitions"] and all(each["leader"] >= 0 for each in view["partitions"]))
                for view in views
            )

        await _until(look, f"not all nodes know the topic {topic}", timeout_s)

    async def _partitions(self, topic: str) -> list[dict[str, Any]] | None:
        """The partitions of a topic, none if it does not exist; None if no node answers."""
        view = await self._ask_latest("view_topic", topic=topic)
        partitions: list[dict[str, Any]] | None = None if view is None else view["partitions"]
        return partitions

    async def _absence(self, topic: str, partition: int | None, partitions: list[Any] | None) -> str | None:
        """The reason why there is no such topic or partition; None if it exists, or if no node answers."""
        if partitions == []:
            if topic not in self._nearest_topics:
                found = await self._ask_latest("nearest_topic", topic=topic)
                self._nearest_topics[topic] = None if found is None else found["name"]
            nearest = self._nearest_topics[topic]
            return f"no topic is named {topic}" + (f"; the nearest name is {nearest}" if nearest else "")
        if partitions is not None and partition is not None and partition >= len(partitions):
            return f"{topic} has no partition {partition}; its partitions: {len(partitions)}"
        return None

    async def _create_offsets_topic(self, group: str) -> None:
        view = await self._ask_latest("view_topic", topic=CONSUMER_OFFSETS)
        if view is not None and not view["partitions"]:

            async def describe(admin: Admin) -> None:
                await admin.describe_groups([group])

            await self._cluster.administer(describe)

    async def _ask_latest(self, command: str, **arguments: object) -> dict[str, Any] | None:
        """The answer of the node with the latest metadata; None if no node answers."""
        answers = [await _ask(node, command, **arguments) for node in self._serving_nodes()]
        return max((each for each in answers if each is not None), key=lambda each: each["offset"], default=None)

    def _serving_nodes(self) -> list[HostedNode]:
        return [node for node in self._cluster.nodes.values() if node.state is NodeState.SERVING]

    def _serving(self, node_id: int) -> HostedNode | None:
        node = self._cluster.nodes.get(node_id)
        return node if node is not None and node.state is NodeState.SERVING else None


async def _ask(node: HostedNode, command: str, **arguments: object) -> dict[str, Any] | None:
    answer: dict[str, Any] | None = None
    try:
        with trio.move_on_after(_ANSWER_S):
            answer = await node.call(command, **arguments)
    except ActionRefused:
        pass
    return answer


async def _until(look: Callable[[], Awaitable[_T | None]], problem: str | Callable[[], str], timeout_s: float) -> _T:
    """The first true result of `look`. Raises NotReached."""
    pause_s = _LOOK_S
    with trio.move_on_after(timeout_s):
        while not (found := await look()):
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOK_MAX_S)
        return found
    reason = problem if isinstance(problem, str) else problem()
    raise NotReached(f"{reason.removesuffix('.')}, after {timeout_s:g} s")
