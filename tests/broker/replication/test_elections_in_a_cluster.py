"""Elections over sockets: requested ones, automatic ones, and unclean ones if the operator allows them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.errors import ErrorCode
from metadata.image import PartitionImage
from metadata.protocol import ConfigResourceType
from metadata.records import LEADER_RECOVERED
from tests.support.replicated_topics import (
    create_replicated,
    read,
    send,
    stored,
    until_described,
    until_led_by_another,
    until_replicated,
)
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.wire_client import connected, only

PREFERRED, UNCLEAN = 0, 1
UNCLEAN_ALLOWED = "unclean.leader.election.enable"


async def elect(
    cluster: RunningCluster,
    node_id: int,
    kind: int = PREFERRED,
    partitions: Sequence[int] | None = (0,),
    version: int = 2,
) -> list[tuple[int, ErrorCode]]:
    """Request an election from a broker. Returns the error code of each partition."""
    named = None if partitions is None else [TopicPartitions(topic="topic", partitions=list(partitions))]
    async with connected(cluster.port(node_id)) as client:
        response = await client.call(ElectLeadersRequest(election_type=kind, topic_partitions=named), version)
    assert response.error_code == ErrorCode.NONE
    results = only(response.replica_election_results).partition_result
    return [(each.partition_id, ErrorCode(each.error_code)) for each in results]


def partition_at(cluster: RunningCluster, node_id: int, index: int = 0) -> PartitionImage:
    node = cluster.nodes[node_id].node
    assert node is not None
    assert node.loader is not None
    return node.loader.image.topics.by_name["topic"].partitions[index]


async def come_and_go(cluster: RunningCluster, node_id: int) -> None:
    """Kill and restart a broker. Afterwards it is in sync and leads no partition."""
    await cluster.nodes[node_id].crash()
    await until_led_by_another(cluster, node_id % 3 + 1, node_id)
    await cluster.start(node_id)
    await until_described(cluster, node_id % 3 + 1, isr=[1, 2, 3])


async def test_every_broker_forwards_a_preferred_election(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster)
        assert await send(cluster, 1, b"before") == 0
        await come_and_go(cluster, 1)
        assert await elect(cluster, 3) == [(0, ErrorCode.NONE)]
        await until_described(cluster, 1, leader=1, isr=[1, 2, 3])
        assert await elect(cluster, 2, version=0) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
        assert await elect(cluster, 2, UNCLEAN) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
        assert await elect(cluster, 2, partitions=None) == []
        assert await send(cluster, 1, b"after") == 0
        assert await read(cluster, 1) == [b"before", b"after"]
        await until_replicated(cluster, tmp_path, [1, 2, 3])


async def test_preferred_leaders_are_elected_automatically(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, overrides={"leader.imbalance.check.interval.seconds": "1"}) as cluster:
        await create_replicated(cluster, [[1, 2, 3], [1, 3, 2], [2, 1, 3]])
        await come_and_go(cluster, 1)
        for index, leader in enumerate((1, 1, 2)):
            await until_described(cluster, 2, index, leader=leader)


@pytest.mark.clients
async def test_real_client_requests_elections(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1, 2, 3], [2, 3, 1]])
        await come_and_go(cluster, 1)

        def elect_named() -> dict[int, str | None]:
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.port(2)}"})
            named = [TopicPartition("topic", index) for index in (0, 1, 2)]
            elected: Mapping[TopicPartition, Any] = admin.elect_leaders(ElectionType.PREFERRED, named).result(10)
            return {each.partition: error and error.name() for each, error in elected.items()}

        answers = await trio.to_thread.run_sync(elect_named)
        assert answers == {0: None, 1: "ELECTION_NOT_NEEDED", 2: "UNKNOWN_TOPIC_OR_PART"}
        await until_described(cluster, 1, leader=1)


@pytest.mark.parametrize("by", ["request", "topic config", "cluster config"])
async def test_followers_truncate_records_that_an_uncleanly_elected_leader_lacks(tmp_path: Path, by: str) -> None:
    async with running_cluster(tmp_path, {1: "controller", 2: "broker", 3: "broker"}) as cluster:
        await create_replicated(cluster, [[2, 3]])
        assert await send(cluster, 2, b"everybody's") == 0
        await cluster.nodes[3].crash()
        await until_described(cluster, 2, isr=[2])
        assert await send(cluster, 2, b"lost") == 0
        await cluster.nodes[2].crash()
        await cluster.start(3)
        await until_described(cluster, 3, leader=-1)
        assert await elect(cluster, 3) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        lost_epoch = partition_at(cluster, 3).leader_epoch

        if by == "request":
            assert await elect(cluster, 3, UNCLEAN) == [(0, ErrorCode.NONE)]
        else:
            await allow_unclean_elections(cluster, 3, "topic" if by == "topic config" else "")

        await until_described(cluster, 3, leader=3, isr=[3])
        await cluster.until(lambda: partition_at(cluster, 3).leader_recovery_state == LEADER_RECOVERED)
        assert partition_at(cluster, 3).leader_epoch == lost_epoch + 1, "recovery begins no epoch"
        assert await send(cluster, 3, b"instead") == 0
        await cluster.start(2)
        await until_described(cluster, 3, leader=3, isr=[2, 3])
        assert stored(tmp_path, 2) == stored(tmp_path, 3) == [b"everybody's", b"instead"]


async def allow_unclean_elections(cluster: RunningCluster, node_id: int, topic: str) -> None:
    kind = ConfigResourceType.TOPIC if topic else ConfigResourceType.BROKER
    config = AlterableConfig(name=UNCLEAN_ALLOWED, config_operation=0, value="true")
    resource = AlterConfigsResource(resource_type=kind, resource_name=topic, configs=[config])
    async with connected(cluster.port(node_id)) as client:
        response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(response.responses).error_code == ErrorCode.NONE
