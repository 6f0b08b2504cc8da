"""Faults of the protocol for test clusters: what a node does to requests, and the history of the requests."""

from jepsen.testing.faults.active_fault import ActiveFault, FaultEnded, Firing
from jepsen.testing.faults.fault import Fault, FaultRefused, fault_of
from jepsen.testing.faults.filtered_dispatchers import filtered_dispatchers
from jepsen.testing.faults.request_filter import RequestFilter
from jepsen.testing.faults.request_history import RequestHistory, ServedRequest

__all__ = [
    "ActiveFault",
    "Fault",
    "FaultEnded",
    "FaultRefused",
    "Firing",
    "RequestFilter",
    "RequestHistory",
    "ServedRequest",
    "fault_of",
    "filtered_dispatchers",
]
