"""Faults of a cluster of processes, without root: a class for each kind, and the nemesis that chooses them."""

from jepsen.processes.faults.fault_context import FaultContext
from jepsen.processes.faults.nemesis import FAULTS, Nemesis

__all__ = ["FAULTS", "FaultContext", "Nemesis"]
