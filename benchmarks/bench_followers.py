"""The cost of partitions for the brokers that replicate them: while they are idle, and per produced batch.

    python -m benchmarks.bench_followers [--partitions 100 1000] [--seconds 10] [--batches 2000]

Three combined nodes with every partition on each of them. For each number of partitions: the CPU time of an idle node,
and the CPU time of all three nodes for one batch with acks=all, where consecutive batches go to different partitions;
then the same with a consumer that follows every partition of one leader in a fetch session.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import trio

from benchmarks import report
from benchmarks.protocol import batch as record_batch
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from jepsen.processes.nodes import ProcessCluster, running_cluster
from jepsen.workloads.connection import Connection

Key: TypeAlias = tuple[str, int]

PARTITIONS_PER_TOPIC: Final = 100
RECORD_BYTES: Final = 100
SETTLE_SECONDS: Final = 5.0
_ALL: Final = -1


async def create(cluster: ProcessCluster, partitions: int) -> list[Key]:
    """Create topics with a replica on each node. Returns the partitions that the first node leads."""
    connection = await _connect(cluster, 1)
    names = [f"topic-{number}" for number in range(partitions // PARTITIONS_PER_TOPIC)]
    for name in names:
        topic = CreatableTopic(name=name, num_partitions=PARTITIONS_PER_TOPIC, replication_factor=len(cluster.nodes))
        response = await connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert response.topics[0].error_code == 0, response
    leaders: dict[Key, int] = {}
    with trio.fail_after(60):
        while len(leaders) < partitions:
            await trio.sleep(0.2)
            described = await connection.call(
                MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names]), 9
            )
            leaders = {
                (topic.name, partition.partition_index): partition.leader_id
                for topic in described.topics
                for partition in topic.partitions
                if len(partition.isr_nodes) == len(cluster.nodes)
            }
    await connection.aclose()
    return [key for key, leader_id in leaders.items() if leader_id == 1]


async def produce(connection: Connection, partitions: Sequence[Key], batches: int) -> None:
    """Produce batches one at a time, each to the next partition."""
    batch = record_batch(1, RECORD_BYTES)
    for number in range(batches):
        topic, index = partitions[number % len(partitions)]
        partition = PartitionProduceData(index=index, records=memoryview(batch))
        data = TopicProduceData(name=topic, partition_data=[partition])
        response = await connection.call(ProduceRequest(acks=_ALL, timeout_ms=3_000, topic_data=[data]), 9)
        assert response.responses[0].partition_responses[0].error_code == 0, response


async def consume(connection: Connection, partitions: Sequence[Key]) -> None:
    """Follow all partitions in one fetch session, until cancelled."""
    offsets = dict.fromkeys(partitions, 0)
    changed = dict(offsets)
    session_id = epoch = 0
    while True:
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=_fetch_topics(changed)
        )
        response = await connection.call(request, 12)
        assert response.error_code == 0, response
        ends = {
            (topic.topic, data.partition_index): data.high_watermark
            for topic in response.responses
            for data in topic.partitions
        }
        changed = {key: end for key, end in ends.items() if end > offsets[key]}
        offsets |= changed
        session_id, epoch = response.session_id, epoch + 1


def _fetch_topics(offsets: Mapping[Key, int]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, index), offset in offsets.items():
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics.setdefault(name, FetchTopic(topic=name)).partitions.append(partition)
    return list(topics.values())


async def measure(cluster: ProcessCluster, partitions: int, options: argparse.Namespace) -> list[str]:
    led = await create(cluster, partitions)
    await trio.sleep(SETTLE_SECONDS)
    before = _cpu(cluster)
    await trio.sleep(options.seconds)
    idle = (_cpu(cluster) - before) / options.seconds / len(cluster.nodes)
    alone = await _produced(cluster, led, options.batches)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume, await _connect(cluster, 1), led)
        await trio.sleep(1)
        consumed = await _produced(cluster, led, options.batches)
        nursery.cancel_scope.cancel()
    return [f"{partitions:,}", f"{100 * idle:.2f} %", *alone, *consumed]


async def _produced(cluster: ProcessCluster, partitions: Sequence[Key], batches: int) -> list[str]:
    connection = await _connect(cluster, 1)
    await produce(connection, partitions, max(50, len(partitions)))  # the first append to a log creates its files
    began, cpu = time.perf_counter(), _cpu(cluster)
    await produce(connection, partitions, batches)
    took, cpu = time.perf_counter() - began, _cpu(cluster) - cpu
    await connection.aclose()
    return [f"{1e3 * cpu / batches:.2f} ms", f"{1e3 * took / batches:.2f} ms"]


async def _connect(cluster: ProcessCluster, node_id: int) -> Connection:
    return await Connection.open(("127.0.0.1", cluster.by_id(node_id).ports.open), 0)


def _cpu(cluster: ProcessCluster) -> float:
    return sum(node.cpu_seconds() for node in cluster.nodes.values())


async def main(options: argparse.Namespace) -> None:
    rows = []
    for partitions in options.partitions:
        with tempfile.TemporaryDirectory(prefix="kraft-followers-") as root:
            async with running_cluster(Path(root)) as cluster:
                rows.append(await measure(cluster, partitions, options))
    print(
        report.table(
            ["partitions", "idle CPU of a node", "CPU of a batch", "its time", "CPU with a consumer", "its time"], rows
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to look at an idle cluster")
    parser.add_argument("--batches", type=int, default=2_000)
    trio.run(main, parser.parse_args())
