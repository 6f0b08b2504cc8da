"""The deterministic simulator: runs unmodified nodes in virtual time, with network and disk faults drawn from a seed.

`Simulation` has the hosts and the network, `scenario` runs nodes and clients on them, `faults` injects faults, and
`invariants` checks every event.
"""

from jepsen.simulation.hosts import Host, Process
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.trace import Event, Trace

__all__ = ["Event", "Host", "Process", "Simulation", "Trace"]
