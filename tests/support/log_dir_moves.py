"""Moves of replicas between the log directories of a node of a test."""

from collections.abc import Callable
from pathlib import Path

import trio

from broker.storage.partition_directory import parse_partition_directory
from broker.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.wire.api.describe_log_dirs import DescribeLogDirsRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, only

QUOTA = "replica.alter.log.dirs.io.max.bytes.per.second"


def two_directories(path: Path) -> dict[str, object]:
    return {"log_dirs": f"{path / 'one'},{path / 'two'}"}


async def move(client: WireClient, destination: Path | str, *indexes: int, topic: str = "topic") -> list[ErrorCode]:
    """Ask for moves of the topic's partitions; returns the error code of each."""
    moved = AlterReplicaLogDir(
        path=str(destination), topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))]
    )
    response = await client.call(AlterReplicaLogDirsRequest(dirs=[moved]), 2)
    return [ErrorCode(each.error_code) for each in only(response.results).partitions]


async def replicas(client: WireClient) -> dict[tuple[str, int, bool], str]:
    """The log directory of each replica, by partition and whether it is a future one."""
    results = (await client.call(DescribeLogDirsRequest(topics=None), 4)).results
    return {
        (topic.name, each.partition_index, each.is_future_key): Path(result.log_dir).name
        for result in results
        for topic in result.topics
        for each in topic.partitions
    }


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not condition():
            await trio.sleep(0.005)


def directories(path: Path) -> list[tuple[str, str]]:
    """The suffix and the log directory of each directory of partition topic-0."""
    found = [
        (parsed.suffix, directory.name)
        for directory in (path / "one", path / "two")
        for entry in directory.iterdir()
        if (parsed := parse_partition_directory(entry.name)) and (parsed.topic, parsed.partition) == ("topic", 0)
    ]
    return sorted(found)


async def set_quota(client: WireClient, rate: int) -> None:
    """Limit moves to a rate in bytes per second; 0 holds them."""
    changed = AlterableConfig(name=QUOTA, config_operation=0, value=str(rate))
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[changed])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [each.error_code for each in response.responses] == [0]


async def held_move(node: RunningNode, client: WireClient, path: Path, **configs: str) -> None:
    """Create a topic with one record, and begin a move that makes no progress."""
    await set_quota(client, 0)
    await until(lambda: _quota(node) == 0)
    await create_topic(client, configs=configs)
    await produce(client, batch(b"first"))
    assert await move(client, path / "two", 0) == [ErrorCode.NONE]
    assert (await replicas(client))["topic", 0, True] == "two"


def _quota(node: RunningNode) -> int:
    assert node.node.broker is not None
    return node.node.broker._throttles.log_dirs._quota()
