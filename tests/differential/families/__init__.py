"""The families of APIs, by name."""

from collections.abc import Mapping
from typing import Final

from tests.differential.families.configs import BrokerConfigs, Configs
from tests.differential.families.groups import ClassicGroups, ConsumerGroups, MixedGroups
from tests.differential.families.quotas import Quotas
from tests.differential.families.records import FetchSessions, Offsets
from tests.differential.families.shares import ShareGroups
from tests.differential.families.transactions import Transactions
from tests.differential.sequences import Family

FAMILIES: Final[Mapping[str, Family]] = {
    each.name: each
    for each in (
        Transactions(),
        ClassicGroups(),
        ConsumerGroups(),
        MixedGroups(),
        Quotas(),
        Configs(),
        BrokerConfigs(),
        Offsets(),
        FetchSessions(),
        ShareGroups(),
    )
}

# Families whose sequences change state of the whole server: one sequence runs at a time.
SERIAL: Final = frozenset({Quotas.name, BrokerConfigs.name})
