"""Assignors of classic groups: Kafka's own as pure functions, and the interface for custom ones."""

from broker.client.consumer.group.assignors.assignor import Assignor, LastAssignment, MemberSubscription
from broker.client.consumer.group.assignors.range import RangeAssignor
from broker.client.consumer.group.assignors.round_robin import RoundRobinAssignor
from broker.client.consumer.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "LastAssignment",
    "MemberSubscription",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]
