"""The variant of `Admin` for asyncio."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from broker.client.admin.admin import Admin
from broker.client.admin.config import AdminSettings
from broker.client.aio.client import AsyncioClient, awaited
from broker.client.arguments.calls import checks_arguments


@checks_arguments()
class AsyncioAdmin(AsyncioClient[Admin]):
    """`Admin` for asyncio: the same methods.

    async with AsyncioAdmin("localhost:9092") as admin:
        (await admin.create_topics([NewTopic("orders", num_partitions=6)])).raise_first()
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

    create_topics = awaited(Admin.create_topics)
    delete_topics = awaited(Admin.delete_topics)
    list_topics = awaited(Admin.list_topics)
    create_partitions = awaited(Admin.create_partitions)
    delete_records = awaited(Admin.delete_records)
    describe_topics = awaited(Admin.describe_topics)
    describe_configs = awaited(Admin.describe_configs)
    incremental_alter_configs = awaited(Admin.incremental_alter_configs)
    list_config_resources = awaited(Admin.list_config_resources)
    describe_cluster = awaited(Admin.describe_cluster)
    describe_api_versions = awaited(Admin.describe_api_versions)
    describe_features = awaited(Admin.describe_features)
    update_features = awaited(Admin.update_features)
    unregister_broker = awaited(Admin.unregister_broker)
    unregister_controller = awaited(Admin.unregister_controller)
    describe_metadata_quorum = awaited(Admin.describe_metadata_quorum)
    add_raft_voter = awaited(Admin.add_raft_voter)
    remove_raft_voter = awaited(Admin.remove_raft_voter)
    list_groups = awaited(Admin.list_groups)
    delete_groups = awaited(Admin.delete_groups)
    remove_members_from_group = awaited(Admin.remove_members_from_group)
    describe_groups = awaited(Admin.describe_groups)
    list_group_offsets = awaited(Admin.list_group_offsets)
    alter_group_offsets = awaited(Admin.alter_group_offsets)
    delete_group_offsets = awaited(Admin.delete_group_offsets)
    list_share_group_offsets = awaited(Admin.list_share_group_offsets)
    alter_share_group_offsets = awaited(Admin.alter_share_group_offsets)
    delete_share_group_offsets = awaited(Admin.delete_share_group_offsets)
    list_offsets = awaited(Admin.list_offsets)
    describe_log_dirs = awaited(Admin.describe_log_dirs)
    alter_replica_log_dirs = awaited(Admin.alter_replica_log_dirs)
    alter_partition_reassignments = awaited(Admin.alter_partition_reassignments)
    list_partition_reassignments = awaited(Admin.list_partition_reassignments)
    elect_leaders = awaited(Admin.elect_leaders)
    describe_producers = awaited(Admin.describe_producers)
    describe_transactions = awaited(Admin.describe_transactions)
    list_transactions = awaited(Admin.list_transactions)
    find_hanging_transactions = awaited(Admin.find_hanging_transactions)
    abort_transaction = awaited(Admin.abort_transaction)
    fence_producers = awaited(Admin.fence_producers)
    end_transactions = awaited(Admin.end_transactions)
    describe_acls = awaited(Admin.describe_acls)
    create_acls = awaited(Admin.create_acls)
    delete_acls = awaited(Admin.delete_acls)
    describe_client_quotas = awaited(Admin.describe_client_quotas)
    alter_client_quotas = awaited(Admin.alter_client_quotas)
    alter_user_scram_credentials = awaited(Admin.alter_user_scram_credentials)
    describe_user_scram_credentials = awaited(Admin.describe_user_scram_credentials)
    create_delegation_token = awaited(Admin.create_delegation_token)
    renew_delegation_token = awaited(Admin.renew_delegation_token)
    expire_delegation_token = awaited(Admin.expire_delegation_token)
    describe_delegation_tokens = awaited(Admin.describe_delegation_tokens)
