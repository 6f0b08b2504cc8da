"""Groups, transactions and share-partitions. Those that this broker coordinates."""

from typing import Final

from broker.metrics.metric import Unit, counter, gauge, histogram

_GROUPS: Final = "kafka.server:type=group-coordinator-metrics"
_SHARES: Final = "kafka.server:type=share-coordinator-metrics"
_GROUP_PARTITION: Final = ("consumergroup", "topic", "partition")

GROUP_COUNT: Final = gauge(
    "kafka_server_groupcoordinatormetrics_group_count",
    "Groups by protocol and state",
    labels=("protocol", "state"),
    mbean=f"{_GROUPS}: group-count, consumer-group-count, share-group-count",
)
SHARE_REBALANCES: Final = counter(
    "kafka_server_groupcoordinatormetrics_share_group_rebalances_total",
    "Changes of share groups after which partitions are assigned again",
    mbean=f"{_GROUPS}: share-group-rebalance-count, share-group-rebalance-rate",
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
SHARE_WRITES: Final = counter(
    "kafka_server_sharecoordinatormetrics_write_total",
    "Writes of the states of share-partitions",
    mbean=f"{_SHARES}: write-total, write-rate",
)
SHARE_WRITE_TIME: Final = histogram(
    "kafka_server_sharecoordinatormetrics_write_latency",
    "Time of a write of a share-partition's state until its record is committed",
    unit=Unit.MILLISECONDS,
    mbean=f"{_SHARES}: write-latency-avg, write-latency-max",
)
SHARE_PRUNED_OFFSET: Final = gauge(
    "kafka_server_sharecoordinatormetrics_last_pruned_offset",
    "Offset before which the share coordinator deleted the records of its topic last",
    labels=("topic", "partition"),
    unit=Unit.OFFSET,
    mbean=f"{_SHARES},topic=*,partition=*: last-pruned-offset",
)
