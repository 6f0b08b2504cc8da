"""A node within the test's own process and event loop, with free ports and a directory of the test."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import trio

from broker.config import KafkaConfig, read_config
from broker.node import Dispatchers, Node
from kraft.env import Disk, Env, real_env
from tests.support.inline_disk import InlineDisk
from tests.support.internal_topics import FEW_PARTITIONS

NODE_ID = 1


class Traced:
    """The events a node has traced."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def __call__(self, kind: str, /, **fields: object) -> None:
        self.events.append((kind, fields))

    def of(self, kind: str) -> list[dict[str, object]]:
        return [fields for name, fields in self.events if name == kind]


class RunningNode:
    """A running node. `traced` has its events; `clock_offset_s` is added to its wall clock."""

    def __init__(self, node: Node, traced: Traced, scope: trio.CancelScope) -> None:
        self.node = node
        self.traced = traced
        self._scope = scope

    @property
    def port(self) -> int:
        return self.port_of("PLAINTEXT")

    @property
    def controller_port(self) -> int:
        return self.port_of("CONTROLLER")

    def port_of(self, listener: str) -> int:
        return next(bound.port for bound in self.node.bound if bound.listener.name == listener)

    def crash(self) -> None:
        """End the node without a shutdown: nothing more is written, as after a power cut."""
        self._scope.cancel()


def node_config(directory: Path, **overrides: object) -> KafkaConfig:
    """A development node's config on `directory`, with free ports and small internal topics; `_` in a key stands for
    `.`.
    """
    named = {key.replace("_", "."): value for key, value in overrides.items()}
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": str(directory / "data"),
        **FEW_PARTITIONS,
        **named,
    }
    return read_config(None, [f"{name}={value}" for name, value in settings.items()])


@asynccontextmanager
async def running_node(
    directory: Path,
    *,
    disk: Disk | None = None,
    wall: Callable[[], float] | None = None,
    dispatchers: Dispatchers | None = None,
    **overrides: object,
) -> AsyncIterator[RunningNode]:
    """A node that serves within the block. It is stopped cleanly at the end of the block, unless it has
    ended before.
    """
    traced = Traced()
    env = real_env(traced)
    env = Env(disk or InlineDisk(env.sync_times), Random(), wall or env.wall, traced, env.sync_times)
    node = Node(env, node_config(directory, **overrides), dispatchers=dispatchers)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await node.run(task_status=task_status)

        await nursery.start(run)
        yield RunningNode(node, traced, scope)
        node.stop()
