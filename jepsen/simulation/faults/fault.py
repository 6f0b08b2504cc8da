"""The shape of a fault."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

import attrs

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.hosts import Host


@attrs.frozen
class Strike:
    """One occasion: who it may befall, and the chance it goes by."""

    cluster: Cluster
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
