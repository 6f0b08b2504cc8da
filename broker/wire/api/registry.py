"""All APIs whose messages can be encoded and decoded. A node advertises only those that it has handlers for."""

from functools import cache
from importlib import import_module
from typing import Final

from broker.wire.schema import Message
from kraft import lazy_attrs


@lazy_attrs.frozen
class Api:
    """One API: its key and name, the supported versions, and the first flexible one (KIP-482).

    The module with its messages is imported when they are asked for.
    """

    key: int
    name: str
    module: str
    min_version: int
    max_version: int
    flexible_from: int

    @property
    def request(self) -> type[Message]:
        return _message(self.module, f"{self.name}Request")

    @property
    def response(self) -> type[Message]:
        return _message(self.module, f"{self.name}Response")


@cache
def _message(module: str, name: str) -> type[Message]:
    message: type[Message] = getattr(import_module(f"broker.wire.api.{module}"), name)
    return message


APIS: Final = {
    api.key: api
    for api in (
        Api(0, "Produce", "produce", 3, 13, flexible_from=9),
        Api(1, "Fetch", "fetch", 4, 18, flexible_from=12),
        Api(2, "ListOffsets", "list_offsets", 1, 11, flexible_from=6),
        Api(3, "Metadata", "metadata", 0, 13, flexible_from=9),
        Api(8, "OffsetCommit", "offset_commit", 2, 10, flexible_from=8),
        Api(9, "OffsetFetch", "offset_fetch", 1, 10, flexible_from=6),
        Api(10, "FindCoordinator", "find_coordinator", 0, 6, flexible_from=3),
        Api(11, "JoinGroup", "join_group", 0, 9, flexible_from=6),
        Api(12, "Heartbeat", "heartbeat", 0, 4, flexible_from=4),
        Api(13, "LeaveGroup", "leave_group", 0, 5, flexible_from=4),
        Api(14, "SyncGroup", "sync_group", 0, 5, flexible_from=4),
        Api(15, "DescribeGroups", "describe_groups", 0, 6, flexible_from=5),
        Api(16, "ListGroups", "list_groups", 0, 5, flexible_from=3),
        Api(17, "SaslHandshake", "sasl_handshake", 0, 1, flexible_from=2),
        Api(18, "ApiVersions", "api_versions", 0, 5, flexible_from=3),
        Api(19, "CreateTopics", "create_topics", 2, 7, flexible_from=5),
        Api(20, "DeleteTopics", "delete_topics", 1, 6, flexible_from=4),
        Api(21, "DeleteRecords", "delete_records", 0, 2, flexible_from=2),
        Api(22, "InitProducerId", "init_producer_id", 0, 6, flexible_from=2),
        Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", 2, 4, flexible_from=4),
        Api(24, "AddPartitionsToTxn", "add_partitions_to_txn", 0, 5, flexible_from=3),
        Api(25, "AddOffsetsToTxn", "add_offsets_to_txn", 0, 4, flexible_from=3),
        Api(26, "EndTxn", "end_txn", 0, 5, flexible_from=3),
        Api(27, "WriteTxnMarkers", "write_txn_markers", 1, 2, flexible_from=1),
        Api(28, "TxnOffsetCommit", "txn_offset_commit", 0, 6, flexible_from=3),
        Api(29, "DescribeAcls", "describe_acls", 1, 3, flexible_from=2),
        Api(30, "CreateAcls", "create_acls", 1, 3, flexible_from=2),
        Api(31, "DeleteAcls", "delete_acls", 1, 3, flexible_from=2),
        Api(32, "DescribeConfigs", "describe_configs", 1, 4, flexible_from=4),
        Api(33, "AlterConfigs", "alter_configs", 0, 2, flexible_from=2),
        Api(34, "AlterReplicaLogDirs", "alter_replica_log_dirs", 1, 2, flexible_from=2),
        Api(35, "DescribeLogDirs", "describe_log_dirs", 1, 5, flexible_from=2),
        Api(36, "SaslAuthenticate", "sasl_authenticate", 0, 2, flexible_from=2),
        Api(37, "CreatePartitions", "create_partitions", 0, 3, flexible_from=2),
        Api(38, "CreateDelegationToken", "create_delegation_token", 1, 3, flexible_from=2),
        Api(39, "RenewDelegationToken", "renew_delegation_token", 1, 2, flexible_from=2),
        Api(40, "ExpireDelegationToken", "expire_delegation_token", 1, 2, flexible_from=2),
        Api(41, "DescribeDelegationToken", "describe_delegation_token", 1, 3, flexible_from=2),
        Api(42, "DeleteGroups", "delete_groups", 0, 3, flexible_from=2),
        Api(43, "ElectLeaders", "elect_leaders", 0, 2, flexible_from=2),
        Api(44, "IncrementalAlterConfigs", "incremental_alter_configs", 0, 1, flexible_from=1),
        Api(45, "AlterPartitionReassignments", "alter_partition_reassignments", 0, 1, flexible_from=0),
        Api(46, "ListPartitionReassignments", "list_partition_reassignments", 0, 0, flexible_from=0),
        Api(47, "OffsetDelete", "offset_delete", 0, 0, flexible_from=1),
        Api(48, "DescribeClientQuotas", "describe_client_quotas", 0, 1, flexible_from=1),
        Api(49, "AlterClientQuotas", "alter_client_quotas", 0, 1, flexible_from=1),
        Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", 0, 0, flexible_from=0),
        Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials", 0, 0, flexible_from=0),
        Api(55, "DescribeQuorum", "describe_quorum", 0, 2, flexible_from=0),
        Api(56, "AlterPartition", "alter_partition", 2, 3, flexible_from=0),
        Api(57, "UpdateFeatures", "update_features", 0, 2, flexible_from=0),
        Api(58, "Envelope", "envelope", 0, 0, flexible_from=0),
        Api(60, "DescribeCluster", "describe_cluster", 0, 2, flexible_from=0),
        Api(61, "DescribeProducers", "describe_producers", 0, 0, flexible_from=0),
        Api(62, "BrokerRegistration", "broker_registration", 0, 4, flexible_from=0),
        Api(63, "BrokerHeartbeat", "broker_heartbeat", 0, 2, flexible_from=0),
        Api(64, "UnregisterBroker", "unregister_broker", 0, 0, flexible_from=0),
        Api(65, "DescribeTransactions", "describe_transactions", 0, 0, flexible_from=0),
        Api(66, "ListTransactions", "list_transactions", 0, 2, flexible_from=0),
        Api(67, "AllocateProducerIds", "allocate_producer_ids", 0, 0, flexible_from=0),
        Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat", 0, 1, flexible_from=0),
        Api(69, "ConsumerGroupDescribe", "consumer_group_describe", 0, 1, flexible_from=0),
        Api(70, "ControllerRegistration", "controller_registration", 0, 0, flexible_from=0),
        Api(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions", 0, 0, flexible_from=0),
        Api(72, "PushTelemetry", "push_telemetry", 0, 0, flexible_from=0),
        Api(73, "AssignReplicasToDirs", "assign_replicas_to_dirs", 0, 0, flexible_from=0),
        Api(74, "ListConfigResources", "list_config_resources", 0, 1, flexible_from=0),
        Api(75, "DescribeTopicPartitions", "describe_topic_partitions", 0, 0, flexible_from=0),
        Api(76, "ShareGroupHeartbeat", "share_group_heartbeat", 1, 1, flexible_from=0),
        Api(77, "ShareGroupDescribe", "share_group_describe", 1, 1, flexible_from=0),
        Api(78, "ShareFetch", "share_fetch", 1, 2, flexible_from=0),
        Api(79, "ShareAcknowledge", "share_acknowledge", 1, 2, flexible_from=0),
        Api(80, "AddRaftVoter", "add_raft_voter", 0, 1, flexible_from=0),
        Api(81, "RemoveRaftVoter", "remove_raft_voter", 0, 0, flexible_from=0),
        Api(83, "InitializeShareGroupState", "initialize_share_group_state", 0, 0, flexible_from=0),
        Api(84, "ReadShareGroupState", "read_share_group_state", 0, 0, flexible_from=0),
        Api(85, "WriteShareGroupState", "write_share_group_state", 0, 1, flexible_from=0),
        Api(86, "DeleteShareGroupState", "delete_share_group_state", 0, 0, flexible_from=0),
        Api(87, "ReadShareGroupStateSummary", "read_share_group_state_summary", 0, 1, flexible_from=0),
        Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets", 0, 1, flexible_from=0),
        Api(91, "AlterShareGroupOffsets", "alter_share_group_offsets", 0, 0, flexible_from=0),
        Api(92, "DeleteShareGroupOffsets", "delete_share_group_offsets", 0, 0, flexible_from=0),
        Api(94, "UnregisterController", "unregister_controller", 0, 0, flexible_from=0),
    )
}
