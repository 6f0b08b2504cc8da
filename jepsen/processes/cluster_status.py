"""The state of the quorum, requested in Kafka's protocol."""

import attrs
import trio

from broker.client import ConnectionLost
from broker.wire.api.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from jepsen.processes.nodes import ProcessCluster
from jepsen.workloads.connection import Connection

_VERSION = 1
_RETRY_SECONDS = 0.02


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
            status = await _ask(node.ports.open)
            if status is not None:
                return status
        await trio.sleep(_RETRY_SECONDS)


async def _ask(port: int) -> QuorumStatus | None:
    topic = RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition(partition_index=0)])
    try:
        connection = await Connection.open(("127.0.0.1", port), 0)
        try:
            response = await connection.call(DescribeQuorumRequest(topics=[topic]), _VERSION)
        finally:
            await connection.aclose()
    except ConnectionLost:
        return None
    if response.error_code:
        return None
    partition = response.topics[0].partitions[0]
    if partition.error_code or partition.leader_id < 0:
        return None
    return QuorumStatus(partition.leader_id, partition.leader_epoch)
