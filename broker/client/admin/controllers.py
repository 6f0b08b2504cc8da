"""The controllers as a cluster of their own, for clients that talk to them directly (KIP-919)."""

from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs
import trio

from broker.client.admin.config import AdminConfig
from broker.client.brokers import Broker
from broker.client.cluster import CONNECT_PATIENCE_S, Cluster
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


def open_controllers(
    config: AdminConfig, environment: Environment | None = None
) -> AbstractAsyncContextManager[Cluster]:
    """The controllers at `bootstrap_controllers`, for as long as the block runs."""
    of_controllers = attrs.evolve(config, bootstrap_servers=config.bootstrap_controllers, bootstrap_controllers=())
    return open_cluster(of_controllers, environment, ControllerCluster)
