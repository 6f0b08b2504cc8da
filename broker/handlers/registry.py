"""Which APIs are served, and on which listeners."""

from typing import Final

from broker.handlers import (
    add_raft_voter,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    envelope,
    fetch_shortcut,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce_shortcut,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from broker.handlers.handler import Handler

# What belongs to the active controller: brokers forward it, controllers execute it, whoever may ask.
FORWARDED_HANDLERS: Final[tuple[Handler, ...]] = (
    create_topics.HANDLER,
    delete_topics.HANDLER,
    alter_configs.HANDLER,
    create_partitions.HANDLER,
    elect_leaders.HANDLER,
    incremental_alter_configs.HANDLER,
    alter_partition_reassignments.HANDLER,
    list_partition_reassignments.HANDLER,
    describe_quorum.HANDLER,
    update_features.HANDLER,
    unregister_broker.HANDLER,
    add_raft_voter.HANDLER,
    remove_raft_voter.HANDLER,
)

# On the listeners for clients and brokers.
HANDLERS: Final[tuple[Handler, ...]] = (
    produce_shortcut.HANDLER,
    fetch_shortcut.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    find_coordinator.HANDLER,
    offset_commit.HANDLER,
    offset_fetch.HANDLER,
    offset_delete.HANDLER,
    api_versions.HANDLER,
    delete_records.HANDLER,
    init_producer_id.HANDLER,
    offset_for_leader_epoch.HANDLER,
    describe_configs.HANDLER,
    describe_log_dirs.HANDLER,
    describe_cluster.HANDLER,
    describe_topic_partitions.HANDLER,
    *FORWARDED_HANDLERS,
)

# On the controllers' listeners.
CONTROLLER_HANDLERS: Final[tuple[Handler, ...]] = (
    api_versions.HANDLER,
    describe_configs.HANDLER,
    alter_partition.HANDLER,
    assign_replicas_to_dirs.HANDLER,
    envelope.HANDLER,
    describe_cluster.CONTROLLER_HANDLER,
    broker_registration.HANDLER,
    broker_heartbeat.HANDLER,
    allocate_producer_ids.HANDLER,
    *FORWARDED_HANDLERS,
)
