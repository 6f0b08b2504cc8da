"""What goes wrong: faults of processes, networks and disks, and the nemesis that brings them about."""

from jepsen.simulation.faults.fault import Fault, Strike
from jepsen.simulation.faults.nemesis import FAULTS, Nemesis

__all__ = ["FAULTS", "Fault", "Nemesis", "Strike"]
