"""Removes all faults, and waits until the cluster has recovered."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from jepsen.history import History
from jepsen.processes.cluster_status import topic_status
from jepsen.processes.nodes import NodeFailed, NodeProcess, ProcessCluster
from jepsen.values import Healing

NAME: Final = "nemesis"
# A recovery that takes longer than this counts as failed, even on a slow machine.
_SERVING_SECONDS: Final = 30.0
_IN_SYNC_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1


async def heal(cluster: ProcessCluster, topics: Sequence[str], history: History) -> None:
    """Remove all faults and wait for recovery. A failure to recover is recorded in the history, not raised."""
    nodes = list(cluster.nodes.values())
    cluster.links.open_all()
    for node in nodes:
        if not node.is_running:
            await node.start()

    async def all_serve() -> bool:
        return all([await _serves(node) for node in nodes])

    async def is_in_sync(topic: str) -> bool:
        seen = [await topic_status(node, topic) for node in nodes]
        return all(each is not None and each == seen[0] and all(one.is_whole for one in each) for each in seen)

    async def all_in_sync() -> bool:
        return all([await is_in_sync(topic) for topic in topics])

    await recorded(history, Healing("all nodes serve", _SERVING_SECONDS), all_serve)
    healing = Healing("every node knows of a leader and of all replicas in sync", _IN_SYNC_SECONDS)
    await recorded(history, healing, all_in_sync)


async def stop_all(nodes: Sequence[NodeProcess], history: History) -> None:
    for node in nodes:
        try:
            await node.stop()
        except NodeFailed as error:
            record_node_failure(history, str(error))


def record_node_failure(history: History, what: str) -> None:
    history.fail(history.invoke(NAME, "run-node", what.partition("\n")[0]), what)


def judge_output(nodes: Sequence[NodeProcess], history: History) -> None:
    """The failures that a node has printed in all its uptimes."""
    for node in nodes:
        for line in node.output_path.read_text(errors="replace").splitlines():
            if "handler_failed" in line or "Traceback (most recent call last)" in line:
                record_node_failure(history, f"{node.name} says {line}")


async def _serves(node: NodeProcess) -> bool:
    try:
        await node.wait_serving()
    except NodeFailed:
        return False
    return True


async def recorded(history: History, healing: Healing, holds: Callable[[], Awaitable[bool]]) -> None:
    """Record the time until a condition holds."""
    operation = history.invoke(NAME, "heal", healing)
    with trio.move_on_after(2 * healing.within_seconds):
        while not await holds():
            await trio.sleep(_LOOK_SECONDS)
        history.ok(operation, None)
        return
    history.fail(operation, f"not after {2 * healing.within_seconds:g} s")
