"""Assignors decide which member of a group gets which partitions (KIP-848)."""

from broker.coordinator.group.assignors.assignor import Assignor, MemberSpec
from broker.coordinator.group.assignors.range import assign_ranges
from broker.coordinator.group.assignors.simple import assign_simply
from broker.coordinator.group.assignors.uniform import assign_uniformly

__all__ = ["Assignor", "MemberSpec", "assign_ranges", "assign_simply", "assign_uniformly"]
