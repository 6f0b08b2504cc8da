"""Which APIs are served, and on which listeners."""

from typing import Final

from broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch_shortcut,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce_shortcut,
)
from broker.handlers.handler import Handler

HANDLERS: Final[tuple[Handler, ...]] = (
    produce_shortcut.HANDLER,
    fetch_shortcut.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    find_coordinator.HANDLER,
    api_versions.HANDLER,
    create_topics.HANDLER,
    delete_topics.HANDLER,
    delete_records.HANDLER,
    init_producer_id.HANDLER,
    offset_for_leader_epoch.HANDLER,
    describe_configs.HANDLER,
    alter_configs.HANDLER,
    describe_log_dirs.HANDLER,
    create_partitions.HANDLER,
    incremental_alter_configs.HANDLER,
    describe_cluster.HANDLER,
    describe_topic_partitions.HANDLER,
)

# What a controller's listener answers, until the quorum's own APIs are served there.
CONTROLLER_HANDLERS: Final[tuple[Handler, ...]] = (api_versions.HANDLER,)
