"""The systems under test: whole nodes, or their quorum alone."""

from jepsen.simulation.subjects.load import SpecialLoad
from jepsen.simulation.subjects.nodes import NodesSubject
from jepsen.simulation.subjects.quorum import QuorumSubject
from jepsen.simulation.subjects.subject import Subject

__all__ = ["NodesSubject", "QuorumSubject", "SpecialLoad", "Subject"]
