"""The cost of partitions in an idle cluster of processes.

    python -m benchmarks.bench_cluster_metadata [--partitions 100 1000 10000] [--seconds 10]

Three combined nodes. For each number of partitions: the CPU time of every idle node, and the time of one config change
through a broker. At the end, with snapshots of the metadata: the time that a node takes to restart, and that a new
broker takes to start.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from benchmarks import report
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from jepsen.processes.cluster_status import quorum_status
from jepsen.processes.nodes import NodeProcess, ProcessCluster, running_cluster
from jepsen.workloads.connection import Connection

PARTITIONS_PER_TOPIC: Final = 10
TOPICS_PER_REQUEST: Final = 50
CHANGES: Final = 200
# Far less than the default, so that the metadata of ten thousand partitions triggers a snapshot.
OVERRIDES: Final = {"metadata.log.max.record.bytes.between.snapshots": "200000"}
_TOPIC: Final = 2
_SET: Final = 0


async def create_up_to(connection: Connection, present: int, partitions: int) -> None:
    names = [f"topic-{index}" for index in range(present // PARTITIONS_PER_TOPIC, partitions // PARTITIONS_PER_TOPIC)]
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        topics = [
            CreatableTopic(name=name, num_partitions=PARTITIONS_PER_TOPIC, replication_factor=1)
            for name in names[start : start + TOPICS_PER_REQUEST]
        ]
        response = await connection.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
        assert all(topic.error_code == 0 for topic in response.topics), response


async def change_configs(connection: Connection) -> list[float]:
    """Change a config repeatedly. Returns the seconds of each change."""
    seconds = []
    for index in range(CHANGES):
        config = AlterableConfig(name="retention.ms", config_operation=_SET, value=str(1_000_000 + index))
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name="topic-0", configs=[config])
        began = time.perf_counter()
        response = await connection.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        seconds.append(time.perf_counter() - began)
        assert response.responses[0].error_code == 0, response
    return seconds


async def measure(cluster: ProcessCluster, partitions: int, present: int, seconds: float) -> list[str]:
    leader = cluster.by_id((await quorum_status(cluster)).leader_id)
    other = next(node for node in cluster.nodes.values() if node is not leader and node.is_running)
    connection = await Connection.open(("127.0.0.1", other.ports.open), 0)
    began = time.perf_counter()
    await create_up_to(connection, present, partitions)
    created = time.perf_counter() - began
    await trio.sleep(3)
    idle = leader.cpu_seconds()
    await trio.sleep(seconds)
    idle = (leader.cpu_seconds() - idle) / seconds
    cpu = leader.cpu_seconds()
    changes = await change_configs(connection)
    cpu = (leader.cpu_seconds() - cpu) / CHANGES
    await connection.aclose()
    return [
        f"{partitions:,}",
        f"{created:.1f} s",
        f"{100 * idle:.1f} %",
        f"{1e3 * statistics.median(changes):.1f} ms",
        f"{1e3 * cpu:.2f} ms",
        f"{leader.resident_bytes() / 2**20:.0f} MB",
    ]


async def started_again(node: NodeProcess) -> float:
    await node.kill()
    return await started(node)


async def started(node: NodeProcess) -> float:
    began = time.perf_counter()
    await node.start()
    await node.wait_serving()
    return time.perf_counter() - began


def snapshots(node: NodeProcess) -> str:
    found = sorted((node.directory / "data" / "__cluster_metadata-0").glob("*.checkpoint"))
    log = sum(path.stat().st_size for path in (node.directory / "data" / "__cluster_metadata-0").glob("*.log"))
    return f"{node.name}: {', '.join(f'{path.name} {path.stat().st_size:,} B' for path in found)}; log {log:,} B"


async def main(options: argparse.Namespace, directory: Path) -> None:
    async with running_cluster(directory, late_brokers=1, overrides=OVERRIDES) as cluster:
        rows, present = [], 0
        for partitions in options.partitions:
            rows.append(await measure(cluster, partitions, present, options.seconds))
            present = partitions
        head = ["partitions", "create", "idle CPU of the controller", "one change", "its CPU", "memory"]
        print(report.table(head, rows))
        nodes = list(cluster.nodes.values())
        for node in nodes[:3]:
            print(snapshots(node))
        print(f"a node starts again, and serves after {await started_again(nodes[1]):.2f} s")
        print(f"a broker that is new serves after {await started(nodes[3]):.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to look at an idle cluster")
    with tempfile.TemporaryDirectory(prefix="kraft-metadata-") as root:
        trio.run(main, parser.parse_args(), Path(root))
