"""A node that formats its directories, if necessary, as `kraft format` does, and then starts."""

from collections.abc import Callable

import trio

from broker.config import KafkaConfig
from broker.node import Node
from broker.node.formatting import Formatting, format_directories
from kraft.env import Env


class FormattedNode:
    """A `jepsen.simulation.hosts.Process`. `node` is the node that runs after formatting.

    `formatting` returns the cluster id and the voters with which the present disk is formatted.
    """

    def __init__(self, env: Env, config: KafkaConfig, formatting: Callable[[], Formatting]) -> None:
        self._env = env
        self._config = config
        self._formatting = formatting
        self.node = Node(env, config)

    def stop(self) -> None:
        self.node.stop()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        await format_directories(
            self._env, self._config, self._formatting(), ignore_formatted=True, report=lambda line: None
        )
        await self.node.run(task_status=task_status)
