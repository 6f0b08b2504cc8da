"""Transactions with idempotence: producers that share transactional ids, right and wrong requests of all their APIs."""

from tests.differential.families.transactions.family import Transactions

__all__ = ["Transactions"]
