"""What the operator decides about the controller, and what this release can do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from metadata.records import VersionRange

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

# 4.0-IV3, the level of Kafka 4.0 whose records ours correspond to; kraft.version 1 is KIP-853's; eligible leader
# replicas (KIP-966), which Kafka 4.0 has behind this feature, are what the last in-sync replica's crash is survived by.
DEFAULT_FEATURES: Final[Mapping[str, int]] = MappingProxyType(
    {METADATA_VERSION: 25, KRAFT_VERSION: 1, ELIGIBLE_LEADER_REPLICAS_VERSION: 1}
)
SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = MappingProxyType(
    {
        METADATA_VERSION: VersionRange(25, 25),
        KRAFT_VERSION: VersionRange(1, 1),
        ELIGIBLE_LEADER_REPLICAS_VERSION: VersionRange(0, 1),
    }
)


@attrs.frozen(kw_only=True)
class ControllerConfig:
    """`features` are the levels that a new cluster starts with; the rest are Kafka's configs of the same names.

    Except for `connection_lost_grace_ms`: how long a broker whose connection broke has to be heard again before it is
    fenced. Coming back takes a live one some tens of milliseconds.
    """

    cluster_id: str
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    broker_session_timeout_ms: int = 9_000
    connection_lost_grace_ms: int = 300
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    features: Mapping[str, int] = DEFAULT_FEATURES

    @property
    def leader_balance_interval_ms(self) -> float | None:
        """None where nothing is to be moved to preferred leaders by itself."""
        return self.leader_imbalance_check_interval_seconds * 1000.0 if self.auto_leader_rebalance_enable else None
