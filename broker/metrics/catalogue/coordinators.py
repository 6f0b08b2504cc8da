"""Groups and transactions. Those that this broker coordinates."""

from typing import Final

from broker.metrics.metric import Unit, gauge

_GROUPS: Final = "kafka.server:type=group-coordinator-metrics"
_GROUP_PARTITION: Final = ("consumergroup", "topic", "partition")

GROUP_COUNT: Final = gauge(
    "kafka_server_groupcoordinatormetrics_group_count",
    "Groups by protocol and state",
    labels=("protocol", "state"),
    mbean=f"{_GROUPS}: group-count, consumer-group-count",
)
OFFSET_COUNT: Final = gauge(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    "Committed offsets of the groups",
    mbean="kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
)
GROUP_MEMBERS: Final = gauge("kafka_consumergroup_members", "Members of the group", labels=("consumergroup",))
GROUP_OFFSET: Final = gauge(
    "kafka_consumergroup_current_offset",
    "Offset that the group has committed for the partition",
    labels=_GROUP_PARTITION,
    unit=Unit.OFFSET,
)
GROUP_LAG: Final = gauge(
    "kafka_consumergroup_lag",
    "Offsets between the group's committed offset and the partition's high watermark",
    labels=_GROUP_PARTITION,
    unit=Unit.OFFSET,
)
TRANSACTIONS: Final = gauge(
    "kafka_coordinator_transaction_transactions",
    "Transactional ids by the state of their transaction",
    labels=("state",),
)
