"""The administrative client."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Final, Self, Unpack

import attrs
import trio

from broker.client.admin.acls import AclCalls
from broker.client.admin.cluster import ClusterCalls
from broker.client.admin.config import AdminConfig, AdminSettings
from broker.client.admin.delegation_tokens import DelegationTokenCalls
from broker.client.admin.group_descriptions import GroupDescriptionCalls
from broker.client.admin.group_offsets import GroupOffsetCalls
from broker.client.admin.groups import GroupCalls
from broker.client.admin.hanging_transactions import HangingTransactionCalls
from broker.client.admin.log_dirs import LogDirCalls
from broker.client.admin.offsets import OffsetCalls
from broker.client.admin.quorum import QuorumCalls
from broker.client.admin.quotas import QuotaCalls
from broker.client.admin.reassignments import ReassignmentCalls
from broker.client.admin.resource_configs import ConfigCalls
from broker.client.admin.scram_credentials import ScramCredentialCalls
from broker.client.admin.share_group_offsets import ShareGroupOffsetCalls
from broker.client.admin.topic_descriptions import TopicDescriptionCalls
from broker.client.admin.topics import TopicCalls
from broker.client.brokers import Broker
from broker.client.cluster import CONNECT_PATIENCE_S, Cluster
from broker.client.config import read_config
from broker.client.environment import Environment
from broker.client.errors import ClosedError, check
from broker.client.open_cluster import open_cluster
from broker.client.types import Node
from broker.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.wire.errors import ErrorCode, KafkaError

_CONTROLLERS: Final = 2
_ENDPOINT_TYPES_SINCE: Final = 1


class Admin(
    TopicCalls,
    TopicDescriptionCalls,
    ConfigCalls,
    ClusterCalls,
    QuorumCalls,
    GroupCalls,
    GroupDescriptionCalls,
    GroupOffsetCalls,
    ShareGroupOffsetCalls,
    OffsetCalls,
    LogDirCalls,
    ReassignmentCalls,
    HangingTransactionCalls,
    AclCalls,
    QuotaCalls,
    ScramCredentialCalls,
    DelegationTokenCalls,
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
            opening = _open_controllers(self._config, self._environment)
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


class _ControllerCluster(Cluster):
    """A cluster whose nodes are the controllers. Controllers serve no Metadata; DescribeCluster takes its place."""

    is_of_controllers = True

    async def controller(self) -> Broker:
        """The active controller. Raises ConnectionLost; KafkaError while no controller is active.

        One that does not answer is asked for again at the others, which elect another one soon.
        """
        while True:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self.refresh()
            if self.metadata.controller_id not in self.metadata.brokers:
                text = "No controller is active; a majority of them has to be alive."
                raise KafkaError(ErrorCode.NOT_CONTROLLER, text)
            with trio.move_on_after(CONNECT_PATIENCE_S):
                broker = await self.broker(self.metadata.controller_id)
                if not self.is_silent(broker):
                    return broker
                await trio.sleep_forever()
            await self.refresh()

    async def _ask_for_metadata(self, topics: list[str] | None, may_create: bool) -> None:
        request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
        response: DescribeClusterResponse = await self.ask_any(
            lambda node: node.call(request, lowest=_ENDPOINT_TYPES_SINCE)
        )
        check(response.error_code, response.error_message)
        controllers = [Node(each.broker_id, each.host, each.port, each.rack) for each in response.brokers]
        self.metadata.update_brokers(controllers, response.cluster_id, response.controller_id)
        self._drop_superseded_links()


def _open_controllers(
    config: AdminConfig, environment: Environment | None = None
) -> AbstractAsyncContextManager[Cluster]:
    """The controllers at `bootstrap_controllers`, for as long as the block runs."""
    of_controllers = attrs.evolve(config, bootstrap_servers=config.bootstrap_controllers, bootstrap_controllers=())
    return open_cluster(of_controllers, environment, _ControllerCluster)
