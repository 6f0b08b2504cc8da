"""Faults of a cluster of processes, without root: a class for each kind, and the nemesis that chooses them."""

from jepsen.processes.faults.nemesis import FAULTS, Nemesis
from jepsen.processes.faults.stage import Stage

__all__ = ["FAULTS", "Nemesis", "Stage"]
