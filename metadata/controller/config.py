"""What the operator decides about the controller."""

from collections.abc import Mapping

import attrs

from metadata.controller.feature_levels import DEFAULT_FEATURES


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
