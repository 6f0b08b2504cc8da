"""Who of a group's members is to have which partitions, where the coordinator decides it (KIP-848)."""

from typing import Final

from broker.coordinator.group.assignors.assignor import Assignor, MemberSpec
from broker.coordinator.group.assignors.range import assign_ranges
from broker.coordinator.group.assignors.uniform import assign_uniformly

# By the names that clients and configs have for them.
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}

__all__ = ["ASSIGNORS", "Assignor", "MemberSpec"]
