"""Controller and quorum. The quorum's metrics are on every node, the controller's on nodes with that role."""

from typing import Final

from broker.metrics.metric import Unit, counter, gauge

_CONTROLLER: Final = "kafka.controller:type=KafkaController"
_RAFT: Final = "kafka.server:type=raft-metrics"

ACTIVE_CONTROLLER: Final = gauge(
    "kafka_controller_kafkacontroller_activecontrollercount",
    "1 on the active controller, 0 on other controllers",
    unit=Unit.BOOLEAN,
    mbean=f"{_CONTROLLER},name=ActiveControllerCount",
)
ACTIVE_BROKERS: Final = gauge(
    "kafka_controller_kafkacontroller_activebrokercount",
    "Registered brokers that are not fenced",
    mbean=f"{_CONTROLLER},name=ActiveBrokerCount",
)
FENCED_BROKERS: Final = gauge(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    "Registered brokers that are fenced",
    mbean=f"{_CONTROLLER},name=FencedBrokerCount",
)
TOPIC_COUNT: Final = gauge(
    "kafka_controller_kafkacontroller_globaltopiccount",
    "Topics of the cluster",
    mbean=f"{_CONTROLLER},name=GlobalTopicCount",
)
GLOBAL_PARTITIONS: Final = gauge(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "Partitions of the cluster",
    mbean=f"{_CONTROLLER},name=GlobalPartitionCount",
)
OFFLINE_PARTITIONS: Final = gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "Partitions of the cluster without a leader",
    mbean=f"{_CONTROLLER},name=OfflinePartitionsCount",
)
PREFERRED_IMBALANCE: Final = gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "Partitions of the cluster that are not led by their preferred replica",
    mbean=f"{_CONTROLLER},name=PreferredReplicaImbalanceCount",
)
APPLIED_OFFSET: Final = gauge(
    "kafka_controller_kafkacontroller_lastappliedrecordoffset",
    "Offset of the last metadata record that this node has applied",
    unit=Unit.OFFSET,
    mbean=f"{_CONTROLLER},name=LastAppliedRecordOffset",
)
LEADER_ELECTIONS: Final = counter(
    "kafka_controller_controllerstats_leaderelections_total",
    "Elections of a partition's leader that this node has seen in the metadata",
    mbean="kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs (ZooKeeper mode)",
)
UNCLEAN_ELECTIONS: Final = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Elections of a leader that was neither in sync nor eligible, by which records may be lost",
    mbean="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
)
RAFT_STATE: Final = gauge(
    "kafka_server_raftmetrics_currentstate",
    "1 for the state of this node in the quorum",
    labels=("state",),
    unit=Unit.BOOLEAN,
    mbean=f"{_RAFT}: current-state",
)
RAFT_LEADER: Final = gauge(
    "kafka_server_raftmetrics_currentleader",
    "Node id of the quorum's leader; -1 if this node knows none",
    mbean=f"{_RAFT}: current-leader",
)
RAFT_EPOCH: Final = gauge(
    "kafka_server_raftmetrics_currentepoch",
    "Epoch of the quorum",
    mbean=f"{_RAFT}: current-epoch",
)
RAFT_VOTERS: Final = gauge(
    "kafka_server_raftmetrics_numberofvoters",
    "Voters of the quorum",
    mbean=f"{_RAFT}: number-of-voters",
)
RAFT_SILENT_VOTERS: Final = gauge(
    "kafka_server_raftmetrics_numberofsilentvoters",
    "Voters that have not fetched from this node for 5 s, or not since it was elected; only on the leader",
)
RAFT_HIGH_WATERMARK: Final = gauge(
    "kafka_server_raftmetrics_highwatermark",
    "End of the committed metadata records that this node knows; -1 if it knows none",
    unit=Unit.OFFSET,
    mbean=f"{_RAFT}: high-watermark",
)
RAFT_LOG_END: Final = gauge(
    "kafka_server_raftmetrics_logendoffset",
    "Offset of the next record of this node's metadata log",
    unit=Unit.OFFSET,
    mbean=f"{_RAFT}: log-end-offset",
)
