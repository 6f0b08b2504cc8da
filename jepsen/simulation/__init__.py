"""The deterministic simulator: unmodified nodes in virtual time, on a network and disks that fail as a seed says.

`Simulation` is the world, `scenario` puts nodes and clients into it, `faults` trouble it, `invariants` watch it.
"""

from jepsen.simulation.hosts import Host, Process
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.trace import Event, Trace

__all__ = ["Event", "Host", "Process", "Simulation", "Trace"]
