"""Actions on the nodes of a test cluster: each has a verb, a target, and maybe a delay.

    {"action": "kill", "leader_of": ["orders", 0], "delay": 0.5}

The target is a node's id or the role that it has when the action happens, which the delay precedes. `start`, `resume`
and `stop` take all nodes that they apply to if there is no target.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import BadRequest, ControlRefused, failures_refused
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.hosted_node import HostedNode, NodeState
from jepsen.testing.route import NODES_REFUSE, Route
from jepsen.testing.targets import TARGET_WORDS, TARGETS, Target, read_target
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words

# For a node to serve.
_WITHIN_S: Final = 30.0


@attrs.frozen
class Action:
    """`target` is None for all nodes."""

    verb: str
    target: Target | None
    delay_s: float

    @classmethod
    def read(cls, cluster: HostedCluster, words: Words) -> "Action":
        """Raises BadRequest."""
        verb = words.text("action")
        if verb not in _VERBS:
            raise BadRequest(f"action {verb!r} is none of {', '.join(_VERBS)}")
        target = read_target(cluster, words)
        if target is None and verb not in _FOR_ALL:
            raise BadRequest(f"{verb} takes one of {', '.join(TARGETS)}")
        delay_s = words.number("delay", 0.0)
        words.end()
        return cls(verb, target, delay_s)

    async def run(self, cluster: HostedCluster) -> list[int]:
        """Wait for the delay, find the nodes, and do it. Returns the ids of the nodes. Raises ControlRefused."""
        await trio.sleep(self.delay_s)
        if self.target is None:
            nodes = [node for node in cluster.nodes.values() if node.state in _FOR_ALL[self.verb]]
        else:
            nodes = [await self.target.find(ClusterView(cluster))]
        cause = "all nodes" if self.target is None else self.target.cause
        for node in nodes:
            cluster.note(f"node_{self.verb}", target=node.node_id, cause=cause)
        await _VERBS[self.verb](cluster, nodes)
        return [node.node_id for node in nodes]


async def _start(cluster: HostedCluster, nodes: Sequence[HostedNode]) -> None:
    await cluster.launch(nodes, _WITHIN_S)


async def _stop(cluster: HostedCluster, nodes: Sequence[HostedNode]) -> None:
    for node in nodes:
        await node.begin_stop()
    for node in nodes:
        await node.wait_ended()


async def _restart(cluster: HostedCluster, nodes: Sequence[HostedNode]) -> None:
    await _stop(cluster, nodes)
    await _start(cluster, nodes)


async def _kill(cluster: HostedCluster, nodes: Sequence[HostedNode]) -> None:
    for node in nodes:
        await node.kill()


async def _pause(cluster: HostedCluster, nodes: Sequence[HostedNode]) -> None:
    for node in nodes:
        await node.pause()


async def _resume(cluster: HostedCluster, nodes: Sequence[HostedNode]) -> None:
    for node in nodes:
        await node.resume()
        await cluster.faults.catch_up(node)


_VERBS: Final[Mapping[str, Callable[[HostedCluster, Sequence[HostedNode]], Awaitable[Any]]]] = {
    "kill": _kill,
    "pause": _pause,
    "restart": _restart,
    "resume": _resume,
    "start": _start,
    "stop": _stop,
}
# The verbs that need no target, and the states of the nodes that they take then.
_FOR_ALL: Final = {
    "resume": (NodeState.PAUSED,),
    "start": (NodeState.DOWN, NodeState.FAILED),
    "stop": (NodeState.SERVING,),
}


async def act(cluster: HostedCluster, words: Words) -> object:
    """Do it now, and answer with the nodes; or begin to wait for the delay, and answer with none."""
    action = Action.read(cluster, words)
    if not action.delay_s:
        return {"nodes": await action.run(cluster)}

    async def act_later() -> None:
        try:
            with failures_refused():
                await action.run(cluster)
        except ControlRefused as refused:
            cluster.note("action_refused", action=action.verb, reason=str(refused))

    cluster.nursery.start_soon(act_later)
    return {"nodes": []}


ACTION_ROUTES: Final = (
    Route(
        "POST",
        "/clusters/{cluster}/actions",
        "act",
        "Kill, pause, resume, stop, start or restart a node",
        "Nodes",
        act,
        {
            "action": Word.text("What is done to the node.", _VERBS, required=True),
            **TARGET_WORDS,
            "delay": Word.number(
                "Seconds. The answer comes at once, without nodes; the node is found when they have passed.",
                default=0.0,
            ),
        },
        refusals=NODES_REFUSE,
        examples=(
            {"action": "kill", "leader_of": ["orders", 0]},
            {"action": "start"},
            {"action": "pause", "controller": True},
            {"action": "resume"},
            {"action": "stop", "node": 3},
            {"action": "start", "node": 3},
            {"action": "restart", "coordinator_of": "readers"},
            {"action": "kill", "node": 2, "delay": 3600},
        ),
    ),
)
