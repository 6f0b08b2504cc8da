"""Responses to clients in a cluster of several nodes, and requests that every node serves."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
)
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.api.unregister_broker import UnregisterBrokerRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, fetch_request, produce_request, read_values
from tests.support.running_cluster import WITHIN_S, ClusterNode, RunningCluster, running_cluster
from tests.support.wire_client import WireClient, connected, only

METADATA_QUORUM = DescribeQuorumRequest(
    topics=[RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition(partition_index=0)])]
)


def described(response: Any) -> dict[int, int]:
    """The brokers of a Metadata or DescribeCluster response, with their ports."""
    return {getattr(each, "node_id", None) or each.broker_id: each.port for each in response.brokers}


def named(*names: str, creates: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=creates
    )


async def named_voters(client: WireClient) -> DescribeQuorumResponse:
    """The quorum, once all voters have reported their directory ids."""
    with trio.fail_after(WITHIN_S):
        while True:
            quorum = await client.call(METADATA_QUORUM, 2)
            if all(any(state.replica_directory_id) for state in _voters(quorum)):
                return quorum
            await trio.sleep(0.005)


def _voters(quorum: DescribeQuorumResponse) -> list[ReplicaState]:
    return only(only(quorum.topics).partitions).current_voters


def others(cluster: RunningCluster, node: ClusterNode) -> list[ClusterNode]:
    return [each for each in cluster.nodes.values() if each is not node]


async def test_every_broker_tells_of_the_same_cluster(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        ports = {node_id: node.port for node_id, node in cluster.nodes.items()}
        controller_ports = {node_id: node.controller_port for node_id, node in cluster.nodes.items()}

        for port in ports.values():
            async with connected(port) as client:
                metadata = await client.call(MetadataRequest(topics=[]), 12)
                assert (described(metadata), metadata.controller_id) == (ports, active.node_id)

                brokers = await client.call(DescribeClusterRequest(), 2)
                assert (described(brokers), brokers.controller_id) == (ports, active.node_id)

                quorum = await named_voters(client)
                partition = only(only(quorum.topics).partitions)
                assert (partition.error_code, partition.leader_id) == (0, active.node_id)
                assert [state.replica_id for state in partition.current_voters] == list(ports)
                assert all(any(state.replica_directory_id) for state in partition.current_voters)
                assert {node.node_id: only(node.listeners).port for node in quorum.nodes} == controller_ports

        for port in controller_ports.values():
            async with connected(port) as client:
                controllers = await client.call(DescribeClusterRequest(endpoint_type=2), 2)
                assert (described(controllers), controllers.controller_id) == (controller_ports, active.node_id)


async def test_any_broker_has_topics_created(tmp_path: Path) -> None:
    """KIP-590."""
    async with running_cluster(tmp_path) as cluster:
        for node in cluster.nodes.values():
            async with connected(node.port) as client:
                asked_for, created = f"asked-for-{node.node_id}", f"created-{node.node_id}"

                # A Metadata request may create the topic, and its response contains it.
                answer = only((await client.call(named(asked_for, creates=True), 12)).topics)
                assert (answer.error_code, len(answer.partitions)) == (0, 1)

                topic_id = await create_topic(client, created)
                await cluster.until_images_match()
                assert only((await client.call(named(created), 12)).topics).topic_id == topic_id


async def test_a_controller_that_is_not_active_says_so(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()

        async with connected(others(cluster, active)[0].controller_port) as client:
            topics = [CreatableTopic(name="topic", num_partitions=1, replication_factor=1)]
            created = only((await client.call(CreateTopicsRequest(topics=topics), 7)).topics)
            unregistered = await client.call(UnregisterBrokerRequest(broker_id=1), 0)
            quorum = only(only((await client.call(METADATA_QUORUM, 2)).topics).partitions)
            key = {"voter_id": active.node_id, "voter_directory_id": b"directory".ljust(16)}
            removed = await client.call(RemoveRaftVoterRequest(cluster_id=None, **key), 0)

    assert (created.error_code, unregistered.error_code) == (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER)
    assert quorum.error_code == removed.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("asked", ["broker", "controller"])
async def test_leader_that_removes_itself_from_the_voters_answers_before_it_resigns_kip_853(
    tmp_path: Path, asked: str
) -> None:
    """Its connections were closed first. A broker then repeated the request at the next leader: VOTER_NOT_FOUND."""
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        epoch = cluster.epoch
        port = others(cluster, active)[0].port if asked == "broker" else active.controller_port
        async with connected(port) as client:
            voters = _voters(await named_voters(client))
            (directory_id,) = [each.replica_directory_id for each in voters if each.replica_id == active.node_id]
            request = RemoveRaftVoterRequest(cluster_id=None, voter_id=active.node_id, voter_directory_id=directory_id)
            removed = await client.call(request, 0)
            assert (removed.error_code, removed.error_message) == (ErrorCode.NONE, None)
        assert (await cluster.active_after(epoch)) is not active


async def test_brokers_that_are_no_controllers_name_themselves(tmp_path: Path) -> None:
    """Clients cannot reach the controller and need not: the broker named in its place forwards their requests."""
    roles = {1: "controller", 2: "broker", 3: "broker"}
    async with running_cluster(tmp_path, roles) as cluster:
        for node_id in (2, 3):
            async with connected(cluster.port(node_id)) as client:
                metadata = await client.call(MetadataRequest(topics=[]), 12)
                assert (sorted(described(metadata)), metadata.controller_id) == ([2, 3], node_id)
                assert (await client.call(DescribeClusterRequest(), 2)).controller_id == node_id

                await create_topic(client, f"topic-{node_id}")

                partition = only(only((await client.call(METADATA_QUORUM, 2)).topics).partitions)
                assert [state.replica_id for state in partition.current_voters] == [1]
                assert sorted(state.replica_id for state in partition.observers) == [2, 3]


async def test_request_to_the_wrong_broker_is_refused_with_the_right_one(tmp_path: Path) -> None:
    """KIP-951. Each broker has one partition of the topic, so that all of them know it."""
    async with (
        running_cluster(tmp_path, {1: "broker,controller", 2: "broker"}) as cluster,
        connected(cluster.port(1)) as right,
        connected(cluster.port(2)) as wrong,
    ):
        topic_id = await create_topic(right, replicas=[1, 2])
        await cluster.until_images_match()

        produced = await wrong.call(produce_request(batch(b"value"), index=0), 12)
        answer = only(only(produced.responses).partition_responses)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
        assert [(each.node_id, each.port) for each in produced.node_endpoints] == [(1, cluster.port(1))]

        request = fetch_request()
        request.topics[0].topic_id = topic_id
        fetched = await wrong.call(request, 16)
        answer = only(only(fetched.responses).partitions)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
        assert [(each.node_id, each.port) for each in fetched.node_endpoints] == [(1, cluster.port(1))]

        produced = await right.call(produce_request(batch(b"value")), 12)
        assert only(only(produced.responses).partition_responses).error_code == 0
        assert await read_values(right) == [b"value"]


async def test_no_broker_answers_for_partitions_of_others(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, {1: "broker,controller", 2: "broker"}) as cluster,
        connected(cluster.port(1)) as right,
        connected(cluster.port(2)) as wrong,
    ):
        await create_topic(right, replicas=[1, 2])
        await cluster.until_images_match()

        for index, code in (
            (0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (1, ErrorCode.NONE),
            (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            offsets = ListOffsetsPartition(partition_index=index, timestamp=-1)
            listed = await wrong.call(
                ListOffsetsRequest(topics=[ListOffsetsTopic(name="topic", partitions=[offsets])]), 7
            )
            epoch = OffsetForLeaderPartition(partition=index, leader_epoch=0)
            ended = await wrong.call(
                OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="topic", partitions=[epoch])]), 4
            )
            records = DeleteRecordsPartition(partition_index=index, offset=0)
            deleted = await wrong.call(
                DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="topic", partitions=[records])]), 2
            )
            fetched = await wrong.call(fetch_request(indexes=[index]), 12)
            produced = await wrong.call(produce_request(batch(b"value"), index=index), 9)
            answers = (
                *(only(only(response.topics).partitions) for response in (listed, ended, deleted)),
                only(only(fetched.responses).partitions),
                only(only(produced.responses).partition_responses),
            )
            assert [answer.error_code for answer in answers] == [code] * 5
