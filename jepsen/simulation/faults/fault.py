"""The interface of a fault, and the administrators through which it acts.

A fault of "a node" may also affect a machine of an application, if the simulation has one (`Cluster.victims`).
"""

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
        """Replace a node's disk with an empty one, or do nothing if no node may lose its disk."""
        ...

    async def damage_disk(self, rng: Random) -> None:
        """Flip a bit on a node's disk, or do nothing if all disks are needed."""
        ...


class TopicAdministrator(Protocol):
    """Moves and changes the topics that clients use, without taking data away.

    `log_directories` are the paths of the log directories of each broker.
    """

    @property
    def log_directories(self) -> Sequence[str]: ...

    def leader_of_any(self, rng: Random) -> str | None:
        """The name of a random partition leader, or None if there is none."""
        ...

    def coordinator_of_any(self, rng: Random) -> str | None:
        """The name of a random coordinator of groups or transactions, or None if there is none."""
        ...

    async def elect_leaders(self, rng: Random) -> None:
        """Elect the preferred leaders of one partition or of all."""
        ...

    async def reassign(self, rng: Random) -> None:
        """Reassign a partition to other brokers, or cancel its reassignment."""
        ...

    async def move_log_dir(self, rng: Random) -> None:
        """Move a replica to another log directory of its broker, or end its move; nothing with one directory."""
        ...

    async def configure(self, rng: Random) -> None:
        """Change a topic's config."""
        ...

    async def lose_log_dir(self, rng: Random) -> None:
        """Empty a broker's log directory, or do nothing if every replica is needed."""
        ...

    def flip_bit(self, rng: Random) -> None:
        """Flip a bit in a file of a running replica, or do nothing if all replicas are needed."""
        ...

    def break_log_dir(self, rng: Random) -> str:
        """Fail all writes to a broker's log directory until its disk is healed. Returns the node's name."""
        ...


@attrs.frozen
class FaultInjection:
    """One occurrence of a fault: its possible targets and its random numbers.

    `topics` is None if the subject of the simulation has no topics.
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
    def all_hosts(self) -> Sequence[Host]:
        return [*self.cluster.victims, *self.cluster.clients.values()]

    def random_victim(self) -> Host:
        """A node, or a machine of an application."""
        return self.rng.choice(self.cluster.victims)

    def random_victims(self) -> Sequence[Host]:
        """A random choice of such machines: most often one, sometimes several or all."""
        victims = self.cluster.victims
        count = self.rng.choice((1, 1, 2, len(victims)))
        return self.rng.sample(victims, min(count, len(victims)))


class Fault(Protocol):
    """A kind of failure. `inject` starts it, waits for its duration, and ends it."""

    async def inject(self, injection: FaultInjection) -> None: ...
