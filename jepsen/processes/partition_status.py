"""The state of a topic's partitions, requested in Kafka's protocol."""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from jepsen.processes.nodes import NodeProcess, ProcessCluster
from jepsen.workloads.connection import Connection

_VERSION: Final = 12
_RETRY_SECONDS: Final = 0.05


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
    try:
        connection = await Connection.open(("127.0.0.1", node.ports.open), 0)
        try:
            response = await connection.call(request, _VERSION)
        finally:
            await connection.aclose()
    except ConnectionLost:
        return None
    return _partitions(response.topics)


async def any_topic_status(cluster: ProcessCluster, topic: str, *, within_seconds: float) -> list[PartitionStatus]:
    """A topic's partitions according to the first node that answers; empty if no node answers in time."""
    with trio.move_on_after(within_seconds):
        while True:
            for node in cluster.nodes.values():
                if node.is_running and (status := await topic_status(node, topic)):
                    return status
            await trio.sleep(_RETRY_SECONDS)
    return []


def _partitions(topics: Sequence[MetadataResponseTopic]) -> list[PartitionStatus] | None:
    if not topics or topics[0].error_code:
        return None
    return [
        PartitionStatus(each.partition_index, each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes))
        for each in sorted(topics[0].partitions, key=lambda each: each.partition_index)
    ]
