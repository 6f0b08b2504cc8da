"""Partitions and replication. The partitions of which this broker has a replica."""

from typing import Final

from broker.metrics.metric import Unit, counter, gauge

_MANAGER: Final = "kafka.server:type=ReplicaManager"
_CLUSTER: Final = "kafka.cluster:type=Partition"
_PARTITION: Final = ("topic", "partition")

PARTITION_COUNT: Final = gauge(
    "kafka_server_replicamanager_partitioncount",
    "Partitions of which this broker has a replica",
    mbean=f"{_MANAGER},name=PartitionCount",
)
LEADER_COUNT: Final = gauge(
    "kafka_server_replicamanager_leadercount",
    "Partitions that this broker leads",
    mbean=f"{_MANAGER},name=LeaderCount",
)
OFFLINE_REPLICA_COUNT: Final = gauge(
    "kafka_server_replicamanager_offlinereplicacount",
    "Replicas of this broker in log directories that failed",
    mbean=f"{_MANAGER},name=OfflineReplicaCount",
)
DAMAGED_REPLICA_COUNT: Final = gauge(
    "kafka_server_replicamanager_damagedreplicacount",
    "Replicas of this broker in whose logs damage was found that is not repaired yet",
)
UNDER_REPLICATED: Final = gauge(
    "kafka_server_replicamanager_underreplicatedpartitions",
    "Partitions led by this broker that have fewer replicas in sync than assigned",
    mbean=f"{_MANAGER},name=UnderReplicatedPartitions",
)
UNDER_MIN_ISR: Final = gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Partitions led by this broker that have fewer replicas in sync than min.insync.replicas",
    mbean=f"{_MANAGER},name=UnderMinIsrPartitionCount",
)
AT_MIN_ISR: Final = gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Partitions led by this broker that have exactly min.insync.replicas in sync",
    mbean=f"{_MANAGER},name=AtMinIsrPartitionCount",
)
ISR_SHRINKS: Final = counter(
    "kafka_server_replicamanager_isrshrinks_total",
    "Times that a replica left the in-sync replicas of a partition that this broker leads",
    mbean=f"{_MANAGER},name=IsrShrinksPerSec",
)
ISR_EXPANDS: Final = counter(
    "kafka_server_replicamanager_isrexpands_total",
    "Times that a replica joined the in-sync replicas of a partition that this broker leads",
    mbean=f"{_MANAGER},name=IsrExpandsPerSec",
)
REPLICAS_COUNT: Final = gauge(
    "kafka_cluster_partition_replicascount",
    "Assigned replicas of a partition that this broker leads",
    labels=_PARTITION,
    mbean=f"{_CLUSTER},topic=*,name=ReplicasCount,partition=*",
)
IN_SYNC_COUNT: Final = gauge(
    "kafka_cluster_partition_insyncreplicascount",
    "In-sync replicas of a partition that this broker leads",
    labels=_PARTITION,
    mbean=f"{_CLUSTER},topic=*,name=InSyncReplicasCount,partition=*",
)
STABLE_OFFSET_LAG: Final = gauge(
    "kafka_cluster_partition_laststableoffsetlag",
    "Offsets between the last stable offset and the high watermark of a partition that this broker leads",
    labels=_PARTITION,
    unit=Unit.OFFSET,
    mbean=f"{_CLUSTER},topic=*,name=LastStableOffsetLag,partition=*",
)
FOLLOWER_LAG: Final = gauge(
    "kafka_cluster_partition_followerlag",
    "Offsets by which a follower's log end is before the leader's, as the leader knows it; Kafka's followers report it",
    labels=("topic", "partition", "replica"),
    unit=Unit.OFFSET,
    mbean="kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=*,topic=*,partition=*",
)
PURGATORY_SIZE: Final = gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Waits of requests for partitions: a request that waits for several counts for each",
    labels=("delayed_operation",),
    mbean="kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*",
)
LEADER_REPLICATION_RATE: Final = gauge(
    "kafka_server_leaderreplication_byte_rate",
    "Rate at which followers fetch throttled replicas from this broker (leader.replication.throttled.rate)",
    unit=Unit.BYTES_PER_SECOND,
    mbean="kafka.server:type=LeaderReplication: byte-rate",
)
FOLLOWER_REPLICATION_RATE: Final = gauge(
    "kafka_server_followerreplication_byte_rate",
    "Rate at which this broker fetches its throttled replicas (follower.replication.throttled.rate)",
    unit=Unit.BYTES_PER_SECOND,
    mbean="kafka.server:type=FollowerReplication: byte-rate",
)
MOVE_RATE: Final = gauge(
    "kafka_server_alterlogdirsreplication_byte_rate",
    "Rate at which replicas are copied between log directories (replica.alter.log.dirs.io.max.bytes.per.second)",
    unit=Unit.BYTES_PER_SECOND,
    mbean="kafka.server:type=AlterLogDirsReplication: byte-rate",
)
MOVE_MAX_LAG: Final = gauge(
    "kafka_server_replicaalterlogdirsmanager_maxlag",
    "Largest lag of a copy for another log directory, in offsets; 0 if no replica moves",
    unit=Unit.OFFSET,
    mbean="kafka.server:type=ReplicaAlterLogDirsManager,name=MaxLag,clientId=ReplicaAlterLogDirs",
)
