"""The blocking variant of `Admin`."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from broker.client.admin.admin import Admin
from broker.client.admin.config import AdminSettings
from broker.client.arguments.calls import checks_arguments
from broker.client.blocking.client import BlockingClient, blocking


@checks_arguments()
class SyncAdmin(BlockingClient[Admin]):
    """`Admin` for scripts, notebooks and threads: the same methods, which block.

        with SyncAdmin("localhost:9092") as admin:
            admin.create_topics([NewTopic("orders", num_partitions=6)]).raise_first()

    Several threads may use one.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        """Takes what `Admin` takes. Raises ConfigError."""
        super().__init__(Admin(bootstrap_servers, config=config, **settings))

    create_topics = blocking(Admin.create_topics)
    delete_topics = blocking(Admin.delete_topics)
    list_topics = blocking(Admin.list_topics)
    create_partitions = blocking(Admin.create_partitions)
    delete_records = blocking(Admin.delete_records)
    describe_topics = blocking(Admin.describe_topics)
    describe_configs = blocking(Admin.describe_configs)
    incremental_alter_configs = blocking(Admin.incremental_alter_configs)
    list_config_resources = blocking(Admin.list_config_resources)
    describe_cluster = blocking(Admin.describe_cluster)
    describe_api_versions = blocking(Admin.describe_api_versions)
    describe_features = blocking(Admin.describe_features)
    update_features = blocking(Admin.update_features)
    unregister_broker = blocking(Admin.unregister_broker)
    unregister_controller = blocking(Admin.unregister_controller)
    describe_metadata_quorum = blocking(Admin.describe_metadata_quorum)
    add_raft_voter = blocking(Admin.add_raft_voter)
    remove_raft_voter = blocking(Admin.remove_raft_voter)
    list_groups = blocking(Admin.list_groups)
    delete_groups = blocking(Admin.delete_groups)
    remove_members_from_group = blocking(Admin.remove_members_from_group)
    describe_groups = blocking(Admin.describe_groups)
    list_group_offsets = blocking(Admin.list_group_offsets)
    alter_group_offsets = blocking(Admin.alter_group_offsets)
    delete_group_offsets = blocking(Admin.delete_group_offsets)
    list_share_group_offsets = blocking(Admin.list_share_group_offsets)
    alter_share_group_offsets = blocking(Admin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(Admin.delete_share_group_offsets)
    list_offsets = blocking(Admin.list_offsets)
    describe_log_dirs = blocking(Admin.describe_log_dirs)
    alter_replica_log_dirs = blocking(Admin.alter_replica_log_dirs)
    alter_partition_reassignments = blocking(Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(Admin.list_partition_reassignments)
    elect_leaders = blocking(Admin.elect_leaders)
    describe_producers = blocking(Admin.describe_producers)
    describe_transactions = blocking(Admin.describe_transactions)
    list_transactions = blocking(Admin.list_transactions)
    find_hanging_transactions = blocking(Admin.find_hanging_transactions)
    abort_transaction = blocking(Admin.abort_transaction)
    fence_producers = blocking(Admin.fence_producers)
    end_transactions = blocking(Admin.end_transactions)
    describe_acls = blocking(Admin.describe_acls)
    create_acls = blocking(Admin.create_acls)
    delete_acls = blocking(Admin.delete_acls)
    describe_client_quotas = blocking(Admin.describe_client_quotas)
    alter_client_quotas = blocking(Admin.alter_client_quotas)
    alter_user_scram_credentials = blocking(Admin.alter_user_scram_credentials)
    describe_user_scram_credentials = blocking(Admin.describe_user_scram_credentials)
    create_delegation_token = blocking(Admin.create_delegation_token)
    renew_delegation_token = blocking(Admin.renew_delegation_token)
    expire_delegation_token = blocking(Admin.expire_delegation_token)
    describe_delegation_tokens = blocking(Admin.describe_delegation_tokens)
