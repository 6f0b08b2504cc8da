"""The interface of a system under test: its nodes, its clients, and the promises to check."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import trio

from jepsen.checkers import Anomaly
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.faults.fault import Administrator, TopicAdministrator
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.invariants import Committed, Invariant
from jepsen.values import WantedTopic

# Starts a task of a client in a nursery.
Start: TypeAlias = Callable[..., None]
# Runs a task of a client and returns its result.
Run: TypeAlias = Callable[..., Awaitable[Any]]


class SpecialClients(Protocol):
    """Clients of a kind of their own, with the topics that they need and the promises to check."""

    @property
    def topics(self) -> Sequence[WantedTopic]: ...

    @property
    def history(self) -> History:
        """The operations of these clients."""
        ...

    async def prepare(self, run: Run, committed: Committed) -> None:
        """Prepare the cluster, in which the topics exist. No faults occur yet."""
        ...

    def start(self, start: Start, nursery: trio.Nursery) -> None:
        """Start the clients, which run while faults occur."""
        ...

    async def verify(self, start: Start, run: Run, committed: Committed) -> None:
        """Check in the healed cluster that everything works again."""
        ...

    def anomalies(self, committed: Committed) -> Iterator[Anomaly]:
        """The anomalies in the complete history."""
        ...


class Subject(Protocol):
    """A system under test. The methods below are called once each, in this order."""

    cluster: Cluster

    @property
    def members(self) -> QuorumMembers: ...

    @property
    def administrator(self) -> Administrator: ...

    @property
    def topic_administrator(self) -> TopicAdministrator | None: ...

    def invariants(self) -> Sequence[Invariant]: ...

    async def prepare(self) -> None:
        """Wait until all nodes serve. No faults occur yet."""
        ...

    async def use(self) -> None:
        """Run the clients until cancelled, while faults occur."""
        ...

    async def verify(self) -> None:
        """Wait until the healed system works completely, and record its final state."""
        ...

    def counts(self) -> Mapping[str, int]:
        """The number of operations by function and outcome, in all histories of the run."""
        ...

    def anomalies(self) -> Iterator[Anomaly]:
        """The anomalies in the complete history."""
        ...
