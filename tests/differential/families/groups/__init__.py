"""Groups with their offsets: those of the classic protocol, and those of the consumer protocol (KIP-848)."""

from tests.differential.families.groups.classic_family import ClassicGroups
from tests.differential.families.groups.consumer_family import ConsumerGroups

__all__ = ["ClassicGroups", "ConsumerGroups"]
