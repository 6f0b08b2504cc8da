"""Who of a group's members is to have which partitions, where the coordinator decides it (KIP-848)."""

from broker.coordinator.group.assignors.assignor import Assignor, MemberSpec
from broker.coordinator.group.assignors.known import ASSIGNORS, CLASS_NAMES

__all__ = ["ASSIGNORS", "CLASS_NAMES", "Assignor", "MemberSpec"]
