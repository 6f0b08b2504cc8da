"""The handlers of the APIs that each kind of listener serves.

An entry says which versions of an API are served, and where its handler is. The module of a handler is imported when
the handler is first used (`HandlerEntry`): a start needs a tenth of them.
"""

from functools import partial
from importlib import import_module
from typing import Final

from broker.server.handler import Handler
from broker.server.handler_entry import HandlerEntry


def _entry(
    api: str,
    module: str,
    name: str = "HANDLER",
    *,
    versions: str | None = None,
    advertised_from: int | None = None,
    unstable_max_version: int | None = None,
) -> HandlerEntry:
    """The entry of the handler `name` of a module of this package."""
    return HandlerEntry(
        api,
        partial(_load, module, name),
        versions=versions,
        advertised_from=advertised_from,
        unstable_max_version=unstable_max_version,
    )


def _load(module: str, name: str) -> Handler:
    handler: Handler = getattr(import_module(f"broker.handlers.{module}"), name)
    return handler


# APIs that belong to the active controller: brokers forward their requests, controllers execute them.
FORWARDED_HANDLERS: Final[tuple[HandlerEntry, ...]] = (
    _entry("CreateTopics", "create_topics"),
    _entry("DeleteTopics", "delete_topics"),
    _entry("AlterConfigs", "alter_configs"),
    _entry("CreatePartitions", "create_partitions"),
    _entry("ElectLeaders", "elect_leaders"),
    _entry("IncrementalAlterConfigs", "incremental_alter_configs"),
    _entry("AlterClientQuotas", "alter_client_quotas"),
    _entry("AlterUserScramCredentials", "alter_user_scram_credentials"),
    _entry("CreateDelegationToken", "delegation_tokens", "CREATE_HANDLER"),
    _entry("RenewDelegationToken", "delegation_tokens", "RENEW_HANDLER"),
    _entry("ExpireDelegationToken", "delegation_tokens", "EXPIRE_HANDLER"),
    _entry("CreateAcls", "acls", "CREATE_HANDLER"),
    _entry("DeleteAcls", "acls", "DELETE_HANDLER"),
    _entry("AlterPartitionReassignments", "alter_partition_reassignments"),
    _entry("ListPartitionReassignments", "list_partition_reassignments"),
    _entry("DescribeQuorum", "describe_quorum"),
    _entry("UpdateFeatures", "update_features"),
    _entry("UnregisterBroker", "unregister_broker"),
    _entry("UnregisterController", "unregister_controller"),
    _entry("AddRaftVoter", "add_raft_voter"),
    _entry("RemoveRaftVoter", "remove_raft_voter"),
)

# APIs that every node answers by itself, on all its listeners.
_LOCAL_HANDLERS: Final[tuple[HandlerEntry, ...]] = (
    _entry("SaslHandshake", "sasl", "HANDSHAKE_HANDLER"),
    _entry("SaslAuthenticate", "sasl", "AUTHENTICATE_HANDLER"),
    _entry("DescribeAcls", "acls", "DESCRIBE_HANDLER"),
    _entry("DescribeConfigs", "describe_configs"),
    _entry("DescribeUserScramCredentials", "describe_user_scram_credentials"),
)

# Kafka serves these if it has an exporter of client metrics. Here that is the HTTP listener. Without it, pushed metrics
# could not be seen, and every client would ask for its subscription for nothing.
TELEMETRY_HANDLERS: Final[tuple[HandlerEntry, ...]] = (
    _entry("GetTelemetrySubscriptions", "client_telemetry", "GET_HANDLER"),
    _entry("PushTelemetry", "client_telemetry", "PUSH_HANDLER"),
)

# On the listeners for clients and brokers.
HANDLERS: Final[tuple[HandlerEntry, ...]] = (
    _entry("ApiVersions", "api_versions"),
    _entry("Produce", "produce", advertised_from=0),
    _entry("Fetch", "fetch"),
    _entry("ListOffsets", "list_offsets"),
    _entry("Metadata", "metadata"),
    _entry("FindCoordinator", "find_coordinator"),
    _entry("OffsetCommit", "offset_commit"),
    _entry("OffsetFetch", "offset_fetch"),
    _entry("OffsetDelete", "offset_delete"),
    _entry("JoinGroup", "join_group"),
    _entry("SyncGroup", "sync_group"),
    _entry("Heartbeat", "heartbeat"),
    _entry("LeaveGroup", "leave_group"),
    _entry("DescribeGroups", "describe_groups"),
    _entry("ListGroups", "list_groups"),
    _entry("DeleteGroups", "delete_groups"),
    _entry("ConsumerGroupHeartbeat", "consumer_group_heartbeat"),
    _entry("ConsumerGroupDescribe", "group_descriptions", "CONSUMER_HANDLER"),
    _entry("ShareGroupHeartbeat", "share_group_heartbeat"),
    _entry("ShareGroupDescribe", "group_descriptions", "SHARE_HANDLER"),
    _entry("DescribeShareGroupOffsets", "share_group_offsets", "DESCRIBE_HANDLER"),
    _entry("AlterShareGroupOffsets", "share_group_offsets", "ALTER_HANDLER"),
    _entry("DeleteShareGroupOffsets", "share_group_offsets", "DELETE_HANDLER"),
    _entry("ShareFetch", "share_fetch"),
    _entry("ShareAcknowledge", "share_acknowledge"),
    _entry("InitializeShareGroupState", "share_group_state", "INITIALIZE_HANDLER"),
    _entry("ReadShareGroupState", "share_group_state", "READ_HANDLER"),
    _entry("WriteShareGroupState", "share_group_state", "WRITE_HANDLER"),
    _entry("DeleteShareGroupState", "share_group_state", "DELETE_HANDLER"),
    _entry("ReadShareGroupStateSummary", "share_group_state", "SUMMARY_HANDLER"),
    _entry("DeleteRecords", "delete_records"),
    _entry("InitProducerId", "init_producer_id", versions="0-5", unstable_max_version=6),
    _entry("AddPartitionsToTxn", "add_partitions_to_txn"),
    _entry("AddOffsetsToTxn", "add_offsets_to_txn"),
    _entry("EndTxn", "end_txn"),
    _entry("WriteTxnMarkers", "write_txn_markers"),
    _entry("TxnOffsetCommit", "txn_offset_commit"),
    _entry("OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    _entry("ListConfigResources", "list_config_resources"),
    _entry("AlterReplicaLogDirs", "alter_replica_log_dirs"),
    _entry("DescribeLogDirs", "describe_log_dirs"),
    _entry("DescribeClientQuotas", "describe_client_quotas"),
    _entry("DescribeCluster", "describe_cluster"),
    _entry("DescribeDelegationToken", "describe_delegation_token"),
    _entry("DescribeProducers", "describe_producers"),
    _entry("DescribeTransactions", "transactions", "DESCRIBE_HANDLER"),
    _entry("ListTransactions", "transactions", "LIST_HANDLER"),
    *TELEMETRY_HANDLERS,
    _entry("DescribeTopicPartitions", "describe_topic_partitions"),
    *_LOCAL_HANDLERS,
    *FORWARDED_HANDLERS,
)

# On the controllers' listeners.
CONTROLLER_HANDLERS: Final[tuple[HandlerEntry, ...]] = (
    _entry("ApiVersions", "api_versions", "CONTROLLER_HANDLER"),
    _entry("AlterPartition", "alter_partition"),
    _entry("AssignReplicasToDirs", "assign_replicas_to_dirs"),
    _entry("Envelope", "envelope"),
    _entry("DescribeCluster", "describe_cluster", "CONTROLLER_HANDLER"),
    _entry("BrokerRegistration", "broker_registration"),
    _entry("BrokerHeartbeat", "broker_heartbeat"),
    _entry("ControllerRegistration", "controller_registration"),
    _entry("AllocateProducerIds", "allocate_producer_ids"),
    *_LOCAL_HANDLERS,
    *FORWARDED_HANDLERS,
)
