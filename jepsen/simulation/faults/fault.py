"""The shape of a fault."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

import attrs

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.hosts import Host


class Administrator(Protocol):
    """Changes the voters of the quorum, without ever removing a majority."""

    async def change_voters(self, rng: Random) -> None:
        """Add or remove a voter, or do nothing if no node answers."""
        ...

    async def lose_disk(self, rng: Random) -> None:
        """Give a node an empty disk; or nothing, where none may lose its disk."""
        ...

    async def damage_disk(self, rng: Random) -> None:
        """Have a bit turn around on a node's disk; or nothing, where all of them are needed."""
        ...


class TopicAdministrator(Protocol):
    """Moves and changes the topics that clients use, without taking data away."""

    def leader_of_any(self, rng: Random) -> str | None:
        """The name of a node that leads some partition."""
        ...

    def coordinator_of_any(self, rng: Random) -> str | None:
        """The name of a node that coordinates some groups."""
        ...

    async def elect_leaders(self, rng: Random) -> None:
        """Have preferred leaders elected, of one partition or of all."""
        ...

    async def reassign(self, rng: Random) -> None:
        """Have the replicas of a partition on other brokers, or cancel that."""
        ...

    async def configure(self, rng: Random) -> None:
        """Change a topic's config."""
        ...

    async def lose_log_dir(self, rng: Random) -> None:
        """Give a broker an empty disk for logs; or nothing, where all are needed as they are."""
        ...

    def break_log_dir(self, rng: Random) -> str:
        """Have nothing be written to one of a broker's log directories, until its disk is healed; the node's name."""
        ...


@attrs.frozen
class Strike:
    """One occasion for a fault: its possible targets, and its random numbers. Without topics, there is no topic
    administrator.
    """

    cluster: Cluster
    members: QuorumMembers
    administrator: Administrator
    topics: TopicAdministrator | None
    rng: Random

    @property
    def nodes(self) -> Sequence[Host]:
        return list(self.cluster.nodes.values())

    @property
    def everyone(self) -> Sequence[Host]:
        return [*self.nodes, *self.cluster.clients.values()]

    def a_node(self) -> Host:
        return self.rng.choice(self.nodes)

    def some_nodes(self) -> Sequence[Host]:
        """One, most of the time; any number, all of them included."""
        count = self.rng.choice((1, 1, 2, len(self.nodes)))
        return self.rng.sample(self.nodes, min(count, len(self.nodes)))


class Fault(Protocol):
    """Something that goes wrong. `strike` does it, lasts as long as it lasts, and takes it back."""

    async def strike(self, strike: Strike) -> None: ...
