"""The cluster: its nodes, API versions and features; brokers that are gone for good."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs

from broker.client.admin.acls import authorized_operations
from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import SOFTWARE_NAME, Broker, software_version
from broker.client.errors import check
from broker.client.results import Outcomes, Results, failure
from broker.client.types import Int16, Node, NodeId
from broker.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.wire.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from broker.wire.api.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from metadata.protocol import AclOperation, UpgradeType

# The endpoint types of DescribeCluster (KIP-919).
_BROKERS = 1
_CONTROLLERS = 2
# DescribeCluster knows endpoint types, and fenced brokers (KIP-1073), from these versions on.
_ENDPOINT_TYPES_SINCE = 1
_FENCED_SINCE = 2
# UpdateFeatures answers for all features together from this version on (KIP-1022).
_TOGETHER_SINCE = 2


@attrs.frozen
class ClusterDescription:
    """`nodes` are the brokers, or the controllers if these were asked; `fenced` are ids of brokers that do not serve.

    `controller_id` is the active controller, or a broker that forwards to it; None if no controller is active.
    `authorized_operations` is None unless the call asked for it.
    """

    cluster_id: str
    controller_id: int | None
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()
    authorized_operations: frozenset[AclOperation] | None = None


class VersionRange(NamedTuple):
    """Versions from `lowest` to `highest`, both included."""

    lowest: int
    highest: int


@attrs.frozen
class ApiVersions:
    """The APIs and features that a node supports: versions by API key, and levels by feature."""

    node: Node
    apis: Mapping[int, VersionRange]
    features: Mapping[str, VersionRange]


@attrs.frozen
class FeatureMetadata:
    """Features of the cluster (KIP-584): the levels in force, since which epoch, and the levels that a node supports.

    `finalized_epoch` is None where the node does not know it.
    """

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int | None
    supported: Mapping[str, VersionRange]


@attrs.frozen
class FeatureUpdate:
    """The level that a feature is to have; 0 turns the feature off."""

    level: Int16
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class ClusterCalls(Routing):
    """Calls on the cluster as a whole."""

    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout_ms: float | None = None,
    ) -> ClusterDescription:
        """Describes the brokers, or the controllers with `bootstrap_controllers`. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> ClusterDescription:
            request = DescribeClusterRequest(
                include_cluster_authorized_operations=include_authorized_operations,
                endpoint_type=_CONTROLLERS if self._uses_controllers else _BROKERS,
                include_fenced_brokers=include_fenced_brokers,
            )
            lowest = _FENCED_SINCE if include_fenced_brokers else _ENDPOINT_TYPES_SINCE if self._uses_controllers else 0
            response: DescribeClusterResponse = await broker.call(request, lowest=lowest)
            check(response.error_code, response.error_message)
            return _description(response)

        return await self._ask_any(ask, timeout_ms)

    async def describe_api_versions(
        self, node_ids: Iterable[NodeId] | None = None, *, timeout_ms: float | None = None
    ) -> Results[int, ApiVersions]:
        """Returns what nodes serve; all nodes where `node_ids` is None."""

        async def ask(broker: Broker, deadline: Deadline) -> ApiVersions:
            response = await _ask_for_versions(broker)
            apis = {each.api_key: VersionRange(each.min_version, each.max_version) for each in response.api_keys}
            return ApiVersions(broker.node, apis, _supported(response))

        return await self._by_broker(node_ids, ask, timeout_ms)

    async def describe_features(self, *, timeout_ms: float | None = None) -> FeatureMetadata:
        """Returns the cluster's features. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> FeatureMetadata:
            response = await _ask_for_versions(broker)
            finalized = {
                each.name: VersionRange(each.min_version_level, each.max_version_level)
                for each in response.finalized_features
            }
            epoch = response.finalized_features_epoch
            return FeatureMetadata(finalized, None if epoch < 0 else epoch, _supported(response))

        return await self._ask_any(ask, timeout_ms)

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Changes the levels of features. Brokers of Kafka 4.0 and later change all of them or none."""

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, None]:
            request = UpdateFeaturesRequest(
                timeout_ms=deadline.request_timeout_ms,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name, max_version_level=updates[name].level, upgrade_type=updates[name].upgrade_type
                    )
                    for name in pending
                ],
                validate_only=validate_only,
            )
            version = broker.version_of(UpdateFeaturesRequest, lowest=1)
            response: UpdateFeaturesResponse = await broker.call(request, version=version)
            error = failure(response.error_code, response.error_message)
            if error is not None or version >= _TOGETHER_SINCE:
                return dict.fromkeys(pending, error)
            return {each.feature: failure(each.error_code, each.error_message) for each in response.results}

        return await self._change(updates, ask, timeout_ms)

    async def unregister_broker(self, broker_id: NodeId, *, timeout_ms: float | None = None) -> None:
        """Removes a broker that was shut down for good from the cluster. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> None:
            response: UnregisterBrokerResponse = await broker.call(UnregisterBrokerRequest(broker_id=broker_id))
            check(response.error_code, response.error_message)

        await self._ask_controller(ask, timeout_ms)


def _description(response: DescribeClusterResponse) -> ClusterDescription:
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=None if response.controller_id < 0 else response.controller_id,
        nodes=tuple(Node(each.broker_id, each.host, each.port, each.rack) for each in response.brokers),
        fenced=frozenset(each.broker_id for each in response.brokers if each.is_fenced),
        authorized_operations=authorized_operations(response.cluster_authorized_operations),
    )


async def _ask_for_versions(broker: Broker) -> ApiVersionsResponse:
    response: ApiVersionsResponse = await broker.call(
        ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=software_version())
    )
    check(response.error_code)
    return response


def _supported(response: ApiVersionsResponse) -> dict[str, VersionRange]:
    return {each.name: VersionRange(each.min_version, each.max_version) for each in response.supported_features}
