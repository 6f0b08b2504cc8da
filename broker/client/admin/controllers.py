"""The controllers as a cluster of their own, for clients that talk to them directly (KIP-919)."""

from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from broker.client.admin.config import AdminConfig
from broker.client.brokers import Broker
from broker.client.cluster import Cluster
from broker.client.environment import Environment
from broker.client.errors import check
from broker.client.open_cluster import open_cluster
from broker.client.types import Node
from broker.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.wire.errors import ErrorCode, KafkaError

_CONTROLLERS: Final = 2
_ENDPOINT_TYPES_SINCE: Final = 1


class ControllerCluster(Cluster):
    """A cluster whose nodes are the controllers. Controllers serve no Metadata; DescribeCluster takes its place."""

    is_of_controllers = True

    async def controller(self) -> Broker:
        """The active controller. Raises ConnectionLost; KafkaError while no controller is active."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh()
        if self.metadata.controller_id not in self.metadata.brokers:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No controller is active; a majority of them has to be alive.")
        return await self.broker(self.metadata.controller_id)

    async def _ask_for_metadata(self, topics: list[str] | None, may_create: bool) -> None:
        node = await self.any_broker()
        request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
        response: DescribeClusterResponse = await node.call(request, lowest=_ENDPOINT_TYPES_SINCE)
        check(response.error_code, response.error_message)
        controllers = [Node(each.broker_id, each.host, each.port, each.rack) for each in response.brokers]
        self.metadata.update_brokers(controllers, response.cluster_id, response.controller_id)
        self._drop_superseded_links()


def open_controllers(
    config: AdminConfig, environment: Environment | None = None
) -> AbstractAsyncContextManager[Cluster]:
    """The controllers at `bootstrap_controllers`, for as long as the block runs."""
    of_controllers = attrs.evolve(config, bootstrap_servers=config.bootstrap_controllers, bootstrap_controllers=())
    return open_cluster(of_controllers, environment, ControllerCluster)
