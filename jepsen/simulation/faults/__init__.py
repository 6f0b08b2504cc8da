"""Faults of processes, networks and disks, and the nemesis that injects them."""

from jepsen.simulation.faults.fault import Fault, FaultInjection
from jepsen.simulation.faults.nemesis import FAULTS, Nemesis

__all__ = ["FAULTS", "Fault", "FaultInjection", "Nemesis"]
