"""The interface of a system under test: its nodes, its clients, and the promises to check."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from jepsen.checkers import Anomaly
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.faults.fault import Administrator, TopicAdministrator
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.invariants import Invariant


class Subject(Protocol):
    """A system under test. The methods below are called once each, in this order."""

    cluster: Cluster
    history: History

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

    def anomalies(self) -> Iterator[Anomaly]:
        """The anomalies in the complete history."""
        ...
