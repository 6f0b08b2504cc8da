"""The state of a cluster, requested in Kafka's protocol: the quorum, a topic's partitions, and coordinators."""

from typing import Any, Final

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from jepsen.processes.nodes import NodeProcess, ProcessCluster
from jepsen.workloads.connection import Connection

_DESCRIBE_QUORUM_VERSION: Final = 1
_METADATA_VERSION: Final = 12
_FIND_COORDINATOR_VERSION: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_QUORUM_RETRY_SECONDS: Final = 0.02
_TOPIC_RETRY_SECONDS: Final = 0.05


@attrs.frozen
class QuorumStatus:
    leader_id: int
    epoch: int


async def quorum_status(cluster: ProcessCluster, *, besides: str | None = None) -> QuorumStatus:
    """The quorum's state according to the first node that knows a leader. Asks all nodes but `besides`, repeatedly."""
    while True:
        for node in cluster.nodes.values():
            if node.name == besides or not node.is_running:
                continue
            status = await _quorum_status(node)
            if status is not None:
                return status
        await trio.sleep(_QUORUM_RETRY_SECONDS)


async def _quorum_status(node: NodeProcess) -> QuorumStatus | None:
    topic = RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition(partition_index=0)])
    response = await _ask(node, DescribeQuorumRequest(topics=[topic]), _DESCRIBE_QUORUM_VERSION)
    if response is None or response.error_code:
        return None
    partition = response.topics[0].partitions[0]
    if partition.error_code or partition.leader_id < 0:
        return None
    return QuorumStatus(partition.leader_id, partition.leader_epoch)


@attrs.frozen
class PartitionStatus:
    """`leader` is a broker's id, -1 where there is none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True if there is a leader, and all replicas are in sync."""
        return self.leader >= 0 and sorted(self.in_sync) == sorted(self.replicas)


async def topic_status(node: NodeProcess, topic: str) -> list[PartitionStatus] | None:
    """A topic's partitions according to one node; None if it does not answer or does not know the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    response = await _ask(node, request, _METADATA_VERSION)
    if response is None or not response.topics or response.topics[0].error_code:
        return None
    return [
        PartitionStatus(each.partition_index, each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes))
        for each in sorted(response.topics[0].partitions, key=lambda each: each.partition_index)
    ]


async def any_topic_status(cluster: ProcessCluster, topic: str, *, within_seconds: float) -> list[PartitionStatus]:
    """A topic's partitions according to the first node that answers; empty if no node answers in time."""
    with trio.move_on_after(within_seconds):
        while True:
            for node in cluster.nodes.values():
                if node.is_running and (status := await topic_status(node, topic)):
                    return status
            await trio.sleep(_TOPIC_RETRY_SECONDS)
    return []


@attrs.frozen
class Coordinated:
    """A group, or with `is_transactional` a transactional id."""

    name: str
    is_transactional: bool = False

    def __str__(self) -> str:
        return f"{'transactional id' if self.is_transactional else 'group'} {self.name}"


async def coordinator_id(cluster: ProcessCluster, coordinated: Coordinated) -> int | None:
    """The node id of the coordinator, according to the first node that knows it; None if no node does."""
    key_type = _TRANSACTION if coordinated.is_transactional else _GROUP
    request = FindCoordinatorRequest(coordinator_keys=[coordinated.name], key_type=key_type)
    for node in cluster.nodes.values():
        response = await _ask(node, request, _FIND_COORDINATOR_VERSION) if node.is_running else None
        if response is not None and not response.coordinators[0].error_code:
            node_id: int = response.coordinators[0].node_id
            return node_id
    return None


async def _ask(node: NodeProcess, request: Any, version: int) -> Any:
    """A node's response; None if it does not answer."""
    try:
        connection = await Connection.open(("127.0.0.1", node.ports.open), 0, security=node.observer_security)
        try:
            return await connection.call(request, version)
        finally:
            await connection.aclose()
    except ConnectionLost:
        return None
