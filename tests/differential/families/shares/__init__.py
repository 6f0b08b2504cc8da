"""Share groups (KIP-932): members, share sessions, deliveries, acknowledgements and administration."""

from tests.differential.families.shares.family import ShareGroups

__all__ = ["ShareGroups"]
