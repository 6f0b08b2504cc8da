"""The administrative client."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, Unpack

from broker.client.admin.acls import AclCalls
from broker.client.admin.cluster import ClusterCalls
from broker.client.admin.config import AdminConfig, AdminSettings
from broker.client.admin.configs import ConfigCalls
from broker.client.admin.controllers import open_controllers
from broker.client.admin.group_descriptions import GroupDescriptionCalls
from broker.client.admin.group_offsets import GroupOffsetCalls
from broker.client.admin.groups import GroupCalls
from broker.client.admin.hanging_transactions import HangingTransactionCalls
from broker.client.admin.log_dirs import LogDirCalls
from broker.client.admin.offsets import OffsetCalls
from broker.client.admin.quorum import QuorumCalls
from broker.client.admin.quotas import QuotaCalls
from broker.client.admin.reassignments import ReassignmentCalls
from broker.client.admin.topic_descriptions import TopicDescriptionCalls
from broker.client.admin.topics import TopicCalls
from broker.client.cluster import Cluster
from broker.client.config import read_config
from broker.client.environment import Environment
from broker.client.errors import ClosedError
from broker.client.open_cluster import open_cluster


class Admin(
    TopicCalls,
    TopicDescriptionCalls,
    ConfigCalls,
    ClusterCalls,
    QuorumCalls,
    GroupCalls,
    GroupDescriptionCalls,
    GroupOffsetCalls,
    OffsetCalls,
    LogDirCalls,
    ReassignmentCalls,
    HangingTransactionCalls,
    AclCalls,
    QuotaCalls,
):
    """Administers a cluster, as Kafka's AdminClient does.

        async with Admin("localhost:9092") as admin:
            results = await admin.create_topics([NewTopic("orders", num_partitions=6)])
            results.raise_first()

    A call about many items returns `Results`: a mapping of each item to its value or to its error. Calls are retried
    until `timeout_ms`, by default `default.api.timeout.ms`; then they raise TimedOut. A call whose connection breaks is
    sent again, so that a topic that it created may be reported as TOPIC_ALREADY_EXISTS.

    With `bootstrap_controllers` it talks to the controllers, of which each call reaches the active one (KIP-919).
    Controllers serve the quorum, features, configs, reassignments, elections, topics and partitions that are created
    or deleted, and access control; for other calls they raise UnsupportedByBroker.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        environment: Environment | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        """Takes Kafka's keys as keyword arguments or as the dict `config`. Raises ConfigError."""
        self._config = read_config(AdminConfig, bootstrap_servers, config, settings)
        self._environment = environment
        self._stack = AsyncExitStack()
        self._opened: Cluster | None = None

    async def __aenter__(self) -> Self:
        if self._uses_controllers:
            opening = open_controllers(self._config, self._environment)
        else:
            opening = open_cluster(self._config, self._environment)
        self._opened = await self._stack.enter_async_context(opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    @property
    def _cluster(self) -> Cluster:
        if self._opened is None:
            raise ClosedError("the Admin is not open; use it within: async with Admin(...) as admin")
        return self._opened
