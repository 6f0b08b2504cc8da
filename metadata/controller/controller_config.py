"""The configuration of the controller."""

from collections.abc import Mapping

import attrs

from kraft import lazy_attrs
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key
from metadata.controller.delegation_tokens import DelegationTokenConfig
from metadata.controller.feature_levels import DEFAULT_FEATURES


@lazy_attrs.frozen(kw_only=True)
class ControllerConfig:
    """`features` are the feature levels of a new cluster. The other fields are Kafka's configs of the same names.

    `connection_lost_grace_ms` is not Kafka's: a broker whose connection broke is fenced after this time, unless it
    sends a heartbeat before. A live broker reconnects within some tens of milliseconds.
    """

    cluster_id: str
    num_partitions: int = from_key(BrokerConfigs.num_partitions)
    default_replication_factor: int = from_key(BrokerConfigs.default_replication_factor)
    delete_topic_enable: bool = from_key(BrokerConfigs.delete_topic_enable)
    broker_session_timeout_ms: int = from_key(BrokerConfigs.broker_session_timeout_ms)
    connection_lost_grace_ms: int = 300
    auto_leader_rebalance_enable: bool = from_key(BrokerConfigs.auto_leader_rebalance_enable)
    leader_imbalance_check_interval_seconds: int = from_key(BrokerConfigs.leader_imbalance_check_interval_seconds)
    tokens: DelegationTokenConfig = attrs.field(factory=DelegationTokenConfig)
    features: Mapping[str, int] = DEFAULT_FEATURES

    @property
    def leader_balance_interval_ms(self) -> float | None:
        """The interval in ms of checks for imbalanced partitions; None if automatic rebalancing is disabled."""
        return self.leader_imbalance_check_interval_seconds * 1000.0 if self.auto_leader_rebalance_enable else None
