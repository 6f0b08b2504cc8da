"""Applications in the simulator: `simulate` runs programs of others, which use the client library, against whole
clusters in virtual time. `jepsen.testing` has the public names.

`run` has one run of a seed, of which `nodes` and `process` are the parts. `timeline` tells what happened, and `view`
has what checks see. `outside` keeps programs inside of the simulation.
"""

from jepsen.simulation.applications.machine import Application, Machine
from jepsen.simulation.applications.plan import SimulatedRun
from jepsen.simulation.applications.simulate import SimulationFailed, SimulationReport, simulate
from jepsen.simulation.applications.view import Check, SimulatedCluster

__all__ = [
    "Application",
    "Check",
    "Machine",
    "SimulatedCluster",
    "SimulatedRun",
    "SimulationFailed",
    "SimulationReport",
    "simulate",
]
