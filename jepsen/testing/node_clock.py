"""The wall clock of a node of a test cluster, which the supervisor can put forward."""

import time

from broker.node import Node
from jepsen.testing.node_commands import Commands


class NodeClock:
    """The wall clock of the machine, put forward by `ahead_s` seconds."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self.commands: Commands = {"set_clock_ahead": self.set_ahead}

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._ahead_s

    async def set_ahead(self, node: Node, ahead_s: float) -> None:
        self._ahead_s = ahead_s
