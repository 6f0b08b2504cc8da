"""The shape of what a scenario troubles: nodes, those who use them, and what is promised to them."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from jepsen.checkers import Anomaly
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.faults.fault import Administrator, TopicAdministrator
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.invariants import Invariant


class Subject(Protocol):
    """The methods below are called once each, in this order."""

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
        """Until everything serves; nothing is broken yet."""
        ...

    async def use(self) -> None:
        """Work until cancelled, while everything breaks."""
        ...

    async def verify(self) -> None:
        """Return when all works that should, now that everything is healed; take in what there is at last."""
        ...

    def anomalies(self) -> Iterator[Anomaly]:
        """The anomalies of the history as a whole."""
        ...
