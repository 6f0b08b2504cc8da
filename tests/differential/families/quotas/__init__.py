"""Client quotas (KIP-546): those of users, client ids and addresses, and of their defaults."""

from tests.differential.families.quotas.family import Quotas

__all__ = ["Quotas"]
