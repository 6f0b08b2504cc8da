"""Invariants, one class for each. They hold after every event, whatever faults occurred.

They observe the trace events of all nodes and hosts, and so know more than any single node.
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
