"""Groups with their offsets."""

from tests.differential.families.groups.classic_family import ClassicGroups

__all__ = ["ClassicGroups"]
