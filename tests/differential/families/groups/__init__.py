"""Groups with their offsets: of the classic protocol, of the consumer protocol (KIP-848), and of both."""

from tests.differential.families.groups.classic_family import ClassicGroups
from tests.differential.families.groups.consumer_family import ConsumerGroups
from tests.differential.families.groups.mixed_family import MixedGroups

__all__ = ["ClassicGroups", "ConsumerGroups", "MixedGroups"]
