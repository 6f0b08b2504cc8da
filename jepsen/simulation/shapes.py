"""The shape of a run, given or drawn by the seed: the number of nodes and their kind."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects import NodesSubject, QuorumSubject, SpecialLoad, Subject


@attrs.frozen
class Shape:
    """The shapes to draw from, by name. A name that occurs twice is drawn twice as often."""

    names: Sequence[str]


SHAPES: Final[Mapping[str, Callable[[Simulation], Subject]]] = MappingProxyType(
    {
        "node": lambda simulation: NodesSubject(simulation, 1),
        "nodes-3": lambda simulation: NodesSubject(simulation, 3),
        "nodes-5": lambda simulation: NodesSubject(simulation, 5),
        "nodes-3+2": lambda simulation: NodesSubject(simulation, 0, controllers=3, brokers=2),
        "transactions-3": lambda simulation: NodesSubject(simulation, 3, special=SpecialLoad.TRANSACTIONS),
        "quotas-3": lambda simulation: NodesSubject(simulation, 3, special=SpecialLoad.QUOTAS),
        "security-3": lambda simulation: NodesSubject(simulation, 3, special=SpecialLoad.SECURITY),
        "security-1+2": lambda simulation: NodesSubject(
            simulation, 0, controllers=1, brokers=2, special=SpecialLoad.SECURITY
        ),
        "shares-3": lambda simulation: NodesSubject(simulation, 3, special=SpecialLoad.SHARES),
        "quorum-1": lambda simulation: QuorumSubject(simulation, 1, 3),
        "quorum-3": lambda simulation: QuorumSubject(simulation, 3, 3),
        "quorum-3+1": lambda simulation: QuorumSubject(simulation, 3, 4),
        "quorum-5": lambda simulation: QuorumSubject(simulation, 5, 5),
    }
)
ANY: Final = Shape(tuple(SHAPES))


def subject_of(simulation: Simulation, shape: Shape) -> tuple[str, Subject]:
    """Draw a shape. Returns its name and its subject."""
    name = simulation.rng("shape").choice(shape.names)
    return name, SHAPES[name](simulation)
