"""The features and levels of Kafka 4.4, and the dependencies of each level (KIP-584, KIP-1022).

These levels change the behaviour of a node; the others exist for clients and tools:

- eligible.leader.replicas.version 1: the controller keeps eligible leader replicas (KIP-966);
- group.version 1: groups of the consumer protocol are served (KIP-848);
- transaction.version 2: each transaction has an epoch of its own (KIP-890);
- share.version 1: share groups are served (KIP-932);
- share.version 2: they may have dead-letter topics (KIP-1191).

Metadata records have a format of their own here, which no level of metadata.version changes. Level 1 of streams.version
may be finalized, as `kafka-features upgrade --release-version` does. New clusters do not begin with it, since streams
groups are not served yet.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from kraft import lazy_attrs
from metadata.records import VersionRange

METADATA_VERSION: Final = "metadata.version"
# The metadata.version from which on log directories can be cordoned (KIP-1066): 4.3-IV0.
CORDONS_SINCE: Final = 30
# The metadata.version from which on there are SCRAM credentials: 3.5-IV2.
SCRAM_SINCE: Final = 11
# The metadata.version from which on there are delegation tokens: 3.6-IV2.
TOKENS_SINCE: Final = 14
# The metadata.version from which on controllers can be unregistered (KIP-1312): 4.4-IV2.
CONTROLLERS_LEAVE_SINCE: Final = 33
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
# The share.version from which on share groups may have dead-letter topics.
DEAD_LETTERS_SINCE: Final = 2
STREAMS_VERSION: Final = "streams.version"

# The name of each metadata.version in Kafka's tools.
RELEASES: Final[Mapping[int, str]] = MappingProxyType(
    {
        7: "3.3-IV3",
        8: "3.4-IV0",
        9: "3.5-IV0",
        10: "3.5-IV1",
        11: "3.5-IV2",
        12: "3.6-IV0",
        13: "3.6-IV1",
        14: "3.6-IV2",
        15: "3.7-IV0",
        16: "3.7-IV1",
        17: "3.7-IV2",
        18: "3.7-IV3",
        19: "3.7-IV4",
        20: "3.8-IV0",
        21: "3.9-IV0",
        22: "4.0-IV0",
        23: "4.0-IV1",
        24: "4.0-IV2",
        25: "4.0-IV3",
        26: "4.1-IV0",
        27: "4.1-IV1",
        28: "4.2-IV0",
        29: "4.2-IV1",
        30: "4.3-IV0",
        31: "4.4-IV0",
        32: "4.4-IV1",
        33: "4.4-IV2",
    }
)
# The levels that changed Kafka's metadata records. metadata.version cannot be downgraded below one of them.
RECORD_CHANGES: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})


@lazy_attrs.frozen
class FeatureLevel:
    """One level above 0 of a feature other than metadata.version.

    It belongs to releases whose metadata.version is `metadata_version` or later. `depends_on` are the levels of other
    features that it requires.
    """

    metadata_version: int
    depends_on: Mapping[str, int] = attrs.field(factory=dict)


FEATURE_LEVELS: Final[Mapping[str, Mapping[int, FeatureLevel]]] = MappingProxyType(
    {
        KRAFT_VERSION: {1: FeatureLevel(21)},
        TRANSACTION_VERSION: {1: FeatureLevel(24), 2: FeatureLevel(24)},
        GROUP_VERSION: {1: FeatureLevel(22)},
        ELIGIBLE_LEADER_REPLICAS_VERSION: {1: FeatureLevel(26, {METADATA_VERSION: 23})},
        SHARE_VERSION: {1: FeatureLevel(28), 2: FeatureLevel(31)},
        STREAMS_VERSION: {1: FeatureLevel(29)},
    }
)

SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {
        METADATA_VERSION: VersionRange(min(RELEASES), max(RELEASES)),
        **{name: VersionRange(0, max(levels)) for name, levels in FEATURE_LEVELS.items()},
    }
)

# A registration says with these names whether the node knows ClientQuotaRecord, AccessControlEntryRecord,
# UserScramCredentialRecord and DelegationTokenRecord. They are no features of Kafka's, so neither clients nor tools are
# told of them. Earlier releases of this project end when they read such a record.
QUOTA_RECORDS: Final = "client.quota.records"
ACL_RECORDS: Final = "access.control.entry.records"
SCRAM_RECORDS: Final = "scram.records"
TOKEN_RECORDS: Final = "delegation.token.records"
_RECORDS: Final = (QUOTA_RECORDS, ACL_RECORDS, SCRAM_RECORDS, TOKEN_RECORDS)
REGISTERED_FEATURES: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {**SUPPORTED_FEATURES, **dict.fromkeys(_RECORDS, VersionRange(0, 1))}
)


def release_level(release: str) -> int | None:
    """The metadata.version of "4.4-IV0", or the last one of a release such as "4.4" or "4.4.1"; None if unknown."""
    short = ".".join(release.split(".")[:2])
    levels = [level for level, name in RELEASES.items() if short in (name, name.partition("-")[0])]
    return max(levels, default=None)


def initial_levels(metadata_version: int) -> dict[str, int]:
    """The feature levels above 0 of a new cluster with this metadata.version.

    kraft.version is always 1, since the voters are in the log. eligible.leader.replicas.version is 1 if its dependency
    allows it; Kafka does that only from 4.1-IV0 on. Without it, records are lost when the last replica in sync of a
    partition crashes. streams.version is 0, where Kafka begins with 1.
    """
    levels = {METADATA_VERSION: metadata_version, KRAFT_VERSION: 1}
    if FEATURE_LEVELS[GROUP_VERSION][1].metadata_version <= metadata_version:
        levels[GROUP_VERSION] = 1
    if FEATURE_LEVELS[TRANSACTION_VERSION][2].metadata_version <= metadata_version:
        levels[TRANSACTION_VERSION] = 2
    for level, known in FEATURE_LEVELS[SHARE_VERSION].items():
        if known.metadata_version <= metadata_version:
            levels[SHARE_VERSION] = level
    if missing_dependency(ELIGIBLE_LEADER_REPLICAS_VERSION, 1, levels) is None:
        levels[ELIGIBLE_LEADER_REPLICAS_VERSION] = 1
    return levels


def missing_dependency(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Kafka's message about a dependency of `level` that `levels` do not meet; None if all are met."""
    known = FEATURE_LEVELS.get(name, {}).get(level)
    for other, needed in known.depends_on.items() if known is not None else ():
        if levels.get(other, 0) < needed:
            return f"{name} could not be set to {level} because it depends on {other} level {needed}"
    return None


DEFAULT_FEATURES: Final[Mapping[str, int]] = MappingProxyType(initial_levels(max(RELEASES)))
