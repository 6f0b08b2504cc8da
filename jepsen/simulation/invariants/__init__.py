"""Invariants, which hold after every event, whatever faults occurred: one class for each.

They observe the trace events of nodes and hosts, and know more than any node does.
"""

from jepsen.simulation.invariants.committed import Committed
from jepsen.simulation.invariants.process_lifecycle import process_invariants
from jepsen.simulation.invariants.raft import raft_invariants
from jepsen.simulation.invariants.replicas import Replica, Replicas
from jepsen.simulation.invariants.replication import replication_invariants
from jepsen.simulation.invariants.watch import Invariant, Watch

__all__ = [
    "Committed",
    "Invariant",
    "Replica",
    "Replicas",
    "Watch",
    "process_invariants",
    "raft_invariants",
    "replication_invariants",
]
