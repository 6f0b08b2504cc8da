"""Several nodes: roles, forwarded requests, and crashes and stops of brokers and controllers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce, read_values
from tests.support.running_cluster import COMBINED, WITHIN_S, RunningCluster, running_cluster
from tests.support.wire_client import connected, only

TWO_AND_ONE = {1: "broker", 2: "broker", 3: "controller"}


async def metadata(cluster: RunningCluster, node_id: int) -> Any:
    async with connected(cluster.port(node_id)) as client:
        return await client.call(MetadataRequest(topics=None), 12)


async def topic_names(cluster: RunningCluster, node_id: int) -> list[str]:
    return sorted(topic.name for topic in (await metadata(cluster, node_id)).topics)


async def live_brokers(cluster: RunningCluster, node_id: int) -> list[int]:
    return sorted(broker.node_id for broker in (await metadata(cluster, node_id)).brokers)


async def until_live(cluster: RunningCluster, node_id: int, wanted: list[int]) -> None:
    with trio.fail_after(WITHIN_S):
        while await live_brokers(cluster, node_id) != wanted:
            await trio.sleep(0.01)


async def assert_all_describe(cluster: RunningCluster, wanted: list[str]) -> None:
    """Wait until every broker knows the committed metadata, and check that it describes these topics."""
    await cluster.until_images_match()
    for node in cluster.nodes.values():
        if node.is_up and node.config.is_broker:
            assert await topic_names(cluster, node.node_id) == wanted


# Roles


@pytest.mark.parametrize("roles", [{1: COMBINED, 2: COMBINED, 3: COMBINED}, TWO_AND_ONE, {1: COMBINED, 2: "broker"}])
async def test_topic_created_at_one_broker_is_known_to_all(tmp_path: Path, roles: Mapping[int, str]) -> None:
    async with running_cluster(tmp_path, roles) as cluster:
        brokers = [node_id for node_id, role in roles.items() if "broker" in role]
        for node_id in brokers:
            async with connected(cluster.port(node_id)) as client:
                await create_topic(client, f"via-{node_id}", partitions=4)
        await assert_all_describe(cluster, [f"via-{node_id}" for node_id in brokers])
        for node_id in brokers:
            assert await live_brokers(cluster, node_id) == brokers


async def test_partitions_are_spread_and_each_broker_serves_its_own_partitions(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, TWO_AND_ONE) as cluster:
        async with connected(cluster.port(1)) as client:
            await create_topic(client, partitions=4)
        await assert_all_describe(cluster, ["topic"])
        partitions = only((await metadata(cluster, 2)).topics).partitions
        leaders = {partition.partition_index: partition.leader_id for partition in partitions}
        assert set(leaders.values()) == {1, 2}
        for index, leader_id in leaders.items():
            async with connected(cluster.port(leader_id)) as client:
                assert (await produce(client, batch(b"%d" % index), index=index)).error_code == 0
                assert await read_values(client, indexes=[index]) == [b"%d" % index]
            async with connected(cluster.port(3 - leader_id)) as client:
                answer = await produce(client, batch(b"lost"), index=index)
                assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_controller_serves_kafka_and_quorum_requests_on_one_port(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, {1: COMBINED, 2: COMBINED, 3: "controller"}) as cluster:
        for node in cluster.nodes.values():
            async with connected(node.controller_port) as client:
                answer = await client.call(DescribeClusterRequest(endpoint_type=2), 1)
                assert answer.error_code == 0
                assert {each.broker_id: each.port for each in answer.brokers} == {
                    each.node_id: each.controller_port for each in cluster.nodes.values()
                }


async def test_every_broker_forwards_every_change(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        other = next(node_id for node_id in cluster.nodes if node_id != active.node_id)
        async with connected(cluster.port(other)) as client:
            await create_topic(client)
            growth = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="topic", count=3, assignments=None)], timeout_ms=1_000
            )
            assert only((await client.call(growth, 3)).results).error_code == 0
            change = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
            resource = AlterConfigsResource(resource_type=2, resource_name="topic", configs=[change])
            altered = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert only(altered.responses).error_code == 0
            taken = await client.call(InitProducerIdRequest(transactional_id=None), 4)
            assert taken.error_code == 0
            refused = await client.call(CreateTopicsRequest(topics=[CreatableTopic(name="topic")]), 7)
            assert only(refused.topics).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert len(only((await metadata(cluster, active.node_id)).topics).partitions) == 3


async def test_controller_applies_configs_set_for_all_brokers(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, TWO_AND_ONE) as cluster, connected(cluster.port(1)) as client:
        change = AlterableConfig(name="log.retention.ms", config_operation=0, value="1234")
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        altered = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert only(altered.responses).error_code == 0
        result = only(
            (
                await client.call(
                    CreateTopicsRequest(topics=[CreatableTopic(name="topic", num_partitions=1, replication_factor=1)]),
                    7,
                )
            ).topics
        )
        assert {config.name: config.value for config in result.configs}["retention.ms"] == "1234"


# Ends


async def test_crash_of_the_active_controller_causes_a_short_pause(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        names = []
        for life in range(3):
            active = await cluster.active_after()
            survivor = next(node_id for node_id in cluster.nodes if node_id != active.node_id)
            async with connected(cluster.port(survivor)) as client:
                await create_topic(client, f"before-{life}")
                await active.crash()
                await create_topic(client, f"after-{life}")
            await cluster.start()
            names += [f"after-{life}", f"before-{life}"]
        await assert_all_describe(cluster, sorted(names))


async def test_crashed_broker_leaves_the_metadata_quickly(tmp_path: Path) -> None:
    """Its kernel resets the connection of its heartbeats, so no client waits for its session to expire."""
    async with running_cluster(tmp_path, TWO_AND_ONE, overrides={"broker.session.timeout.ms": "60000"}) as cluster:
        await cluster.nodes[1].crash()
        await until_live(cluster, 2, [2])
        await cluster.start()
        assert await live_brokers(cluster, 1) == [1, 2]


async def test_crashed_broker_is_listed_once_more_beside_the_new_leaders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka does not move partitions away from a broker that the same response no longer lists."""
    monkeypatch.setattr("broker.server.lost_brokers._LISTED_S", WITHIN_S)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    async with running_cluster(tmp_path, TWO_AND_ONE) as cluster, connected(cluster.port(2)) as client:
        await create_topic(client, "t", replicas=[1])
        await cluster.until_images_match()
        await cluster.nodes[1].crash()
        listed, leader = [], 1
        with trio.fail_after(WITHIN_S):
            while leader != -1:
                response = await client.call(request, 12)
                leader = only(only(response.topics).partitions).leader_id
                listed.append(sorted(broker.node_id for broker in response.brokers))
        response = await client.call(request, 12)
        assert listed == [[1, 2]] * len(listed)
        assert [broker.node_id for broker in response.brokers] == [2]


async def test_stopping_broker_shuts_down_in_a_controlled_way(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, TWO_AND_ONE) as cluster:
        async with connected(cluster.port(1)) as client:
            await create_topic(client, partitions=2)
        await cluster.nodes[1].stop()
        await cluster.until_images_match()
        states = [event["state"] for event in cluster.nodes[1].traced.of("broker_state_changed")]
        assert states[-2:] == ["PENDING_CONTROLLED_SHUTDOWN", "SHUTTING_DOWN"]
        assert await live_brokers(cluster, 2) == [2]
        topic = only((await metadata(cluster, 2)).topics)
        assert sorted(partition.leader_id for partition in topic.partitions) == [-1, 2]

        await cluster.start()
        topic = only((await metadata(cluster, 1)).topics)
        assert sorted(partition.leader_id for partition in topic.partitions) == [1, 2]
        assert [event["clean"] for event in cluster.nodes[1].traced.of("storage_log_dir_loaded")] == [False, True]


async def test_stopping_active_controller_hands_over(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        survivor = next(node_id for node_id in cluster.nodes if node_id != active.node_id)
        await active.stop()
        async with connected(cluster.port(survivor)) as client:
            await create_topic(client)
        roles = [event["role"] for event in active.traced.of("role_changed")]
        assert roles[roles.index("leader") + 1] == "resigned"


async def test_broker_reconnects_after_its_controller_is_deposed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        async with connected(active.controller_port) as client:
            await client.call(DescribeClusterRequest(endpoint_type=2), 1)
            for node in cluster.nodes.values():
                if node is not active:
                    await node.crash()
            await client.expect_close()  # it cannot reach a majority
        async with connected(active.controller_port) as client:
            creation = CreateTopicsRequest(topics=[CreatableTopic(name="topic", num_partitions=1)])
            result = only((await client.call(creation, 7)).topics)
            assert result.error_code == ErrorCode.NOT_CONTROLLER
        await cluster.start()


# Starts and stops


async def test_cluster_stopped_at_once_ends_with_clean_logs(tmp_path: Path) -> None:
    """The last node has no other node to hand over to."""
    async with running_cluster(tmp_path) as cluster:
        async with connected(cluster.port(1)) as client:
            await create_topic(client, partitions=6)
        with trio.fail_after(30):
            async with trio.open_nursery() as stopping:
                for node in cluster.nodes.values():
                    stopping.start_soon(node.stop)
        assert all((tmp_path / f"node-{node_id}" / ".kafka_cleanshutdown").exists() for node_id in cluster.nodes)


async def test_node_without_a_quorum_can_be_stopped(tmp_path: Path) -> None:
    """Logs that it has not opened remain cleanly closed."""
    async with running_cluster(tmp_path) as cluster:
        async with connected(cluster.port(1)) as client:
            await create_topic(client, partitions=6)
        for node in cluster.nodes.values():
            await node.stop()
        traced = cluster.nodes[1].traced
        seen = len(traced.of("role_changed"))
        cluster.start_soon(1)
        with trio.fail_after(WITHIN_S):
            while all(change["role"] != "prospective" for change in traced.of("role_changed")[seen:]):
                await trio.sleep(0.01)
        assert cluster.nodes[1].node is not None
        assert not cluster.nodes[1].node.is_serving
        await cluster.nodes[1].stop()
        assert (tmp_path / "node-1" / ".kafka_cleanshutdown").exists()

        await cluster.start()
        assert [event["clean"] for event in cluster.nodes[1].traced.of("storage_log_dir_loaded")] == [False, True]


async def test_two_of_three_nodes_are_enough_to_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, is_started=False) as cluster:
        await cluster.start(1, 3)
        async with connected(cluster.port(3)) as client:
            await create_topic(client, partitions=6)
        await cluster.start(2)
        assert await topic_names(cluster, 2) == ["topic"]


# Snapshots


async def test_nodes_start_from_snapshots_and_a_new_one_fetches_one(tmp_path: Path) -> None:
    roles = {1: COMBINED, 2: COMBINED, 3: COMBINED, 4: "broker"}
    small = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    async with running_cluster(tmp_path, roles, overrides=small, is_started=False) as cluster:
        await cluster.start(1, 2, 3)
        names = [f"topic-{number:02}" for number in range(20)]
        async with connected(cluster.port(1)) as client:
            for name in names:
                await create_topic(client, name)
        for node in (cluster.nodes[node_id] for node_id in (1, 2, 3)):
            await cluster.until(lambda node=node: bool(node.traced.of("snapshot_taken")))
            await node.crash()

        await cluster.start()
        await assert_all_describe(cluster, names)
        assert cluster.nodes[4].traced.of("snapshot_installed")
        assert await live_brokers(cluster, 4) == [1, 2, 3, 4]
        for topic in (await metadata(cluster, 4)).topics:
            async with connected(cluster.port(only(topic.partitions).leader_id)) as client:
                assert (await produce(client, batch(b"value"), topic=topic.name)).error_code == 0
