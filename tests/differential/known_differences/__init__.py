"""The differences from Apache Kafka that stay, each with its reason: the only list of them, a module per concern."""

from collections.abc import Sequence
from typing import Final

from tests.differential.known_differences.configs import CONFIGS
from tests.differential.known_differences.entries import Difference, KnownDifference, first_difference
from tests.differential.known_differences.groups import GROUPS
from tests.differential.known_differences.mixed_groups import MIXED_GROUPS
from tests.differential.known_differences.quotas import QUOTAS
from tests.differential.known_differences.records import RECORDS
from tests.differential.known_differences.shares import SHARES
from tests.differential.known_differences.transactions import TRANSACTIONS

__all__ = ["KNOWN_DIFFERENCES", "Difference", "KnownDifference", "first_difference"]

KNOWN_DIFFERENCES: Final[Sequence[KnownDifference]] = (
    *TRANSACTIONS,
    *GROUPS,
    *MIXED_GROUPS,
    *QUOTAS,
    *CONFIGS,
    *RECORDS,
    *SHARES,
)
