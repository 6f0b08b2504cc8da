"""The topic "topic" of a running cluster: functions that create, describe, write and read it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.records import iter_headers, iter_records
from tests.support.requests import batch, produce, read_values
from tests.support.running_cluster import WITHIN_S, RunningCluster
from tests.support.wire_client import connected, only

# The time that followers on a busy machine need to fetch a batch. It is shorter than the timeout of a response.
_PRODUCE_TIMEOUT_MS = 8_000


async def create_replicated(
    cluster: RunningCluster,
    assignments: Sequence[Sequence[int]] = ((1, 2, 3),),
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with these replicas of its partitions, and wait until every broker knows it."""
    topic = CreatableTopic(
        name="topic",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(assignments)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    brokers = [node_id for node_id, node in cluster.nodes.items() if node.is_up and node.config.is_broker]
    async with connected(cluster.port(brokers[0])) as client:
        result = only((await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)).topics)
    assert result.error_code == 0, result.error_message
    await cluster.until_images_match()


async def described(cluster: RunningCluster, node_id: int, index: int = 0) -> Any:
    """The partition in a broker's Metadata response; None if the broker does not know it."""
    async with connected(cluster.port(node_id)) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="topic")], allow_auto_topic_creation=False)
        topic = only((await client.call(request, 12)).topics)
    return next((each for each in topic.partitions if each.partition_index == index), None)


async def until_described(
    cluster: RunningCluster,
    node_id: int,
    index: int = 0,
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    replicas: Sequence[int] | None = None,
) -> Any:
    """Wait until a broker knows this leader, these in-sync replicas and these replicas in order. Returns the partition.

    When this returns, all other brokers, including the leader, know the same state.
    """

    def holds(partition: Any) -> bool:
        return (
            leader in (None, partition.leader_id)
            and (isr is None or sorted(isr) == sorted(partition.isr_nodes))
            and (replicas is None or list(replicas) == list(partition.replica_nodes))
        )

    return await _until_described_as(cluster, node_id, index, holds)


async def until_led_by_another(cluster: RunningCluster, node_id: int, former: int) -> Any:
    """Wait until a broker, and then all others, know a leader other than `former`. Returns the partition."""
    return await _until_described_as(cluster, node_id, 0, lambda partition: partition.leader_id not in (-1, former))


async def _until_described_as(cluster: RunningCluster, node_id: int, index: int, holds: Callable[[Any], bool]) -> Any:
    with trio.fail_after(WITHIN_S):
        while (partition := await described(cluster, node_id, index)) is None or not holds(partition):
            await trio.sleep(0.01)
    await cluster.until_images_match()
    return partition


async def send(cluster: RunningCluster, node_id: int, *values: bytes, index: int = 0, acks: int = -1) -> int:
    """Produce one batch. Returns the error code."""
    async with connected(cluster.port(node_id)) as client:
        answer = await produce(client, batch(*values), index=index, acks=acks, timeout_ms=_PRODUCE_TIMEOUT_MS)
        return int(answer.error_code)


async def read(cluster: RunningCluster, node_id: int, index: int = 0) -> list[bytes | None]:
    async with connected(cluster.port(node_id)) as client:
        return await read_values(client, indexes=[index])


def content(directory: Path, node_id: int, index: int = 0) -> bytes:
    """The bytes of a replica's segments."""
    segments = sorted((directory / f"node-{node_id}" / f"topic-{index}").glob("*.log"))
    return b"".join(path.read_bytes() for path in segments)


def stored(directory: Path, node_id: int, index: int = 0) -> list[bytes | None]:
    data = content(directory, node_id, index)
    return [record.value for at, header in iter_headers(data) for record in iter_records(data, at, header)]


async def until_replicated(cluster: RunningCluster, directory: Path, node_ids: Sequence[int], index: int = 0) -> None:
    """Wait until these nodes have the same bytes."""
    await cluster.until(lambda: len({content(directory, node_id, index) for node_id in node_ids}) == 1)
