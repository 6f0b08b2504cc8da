"""DescribeQuorum, AddRaftVoter and RemoveRaftVoter, sent to a broker and to a controller (KIP-595, KIP-853)."""

from collections.abc import AsyncIterator

import pytest

from broker.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from broker.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
)
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.errors import ErrorCode
from tests.support.running_node import NODE_ID, RunningNode
from tests.support.wire_client import WireClient, connected, only

SOMEBODY = bytes(range(16))
UNKNOWN_TIME = -1


@pytest.fixture(params=["broker", "controller"])
async def either(request: pytest.FixtureRequest, node: RunningNode) -> AsyncIterator[WireClient]:
    """A connection to the node's broker listener, which forwards, or to its controller listener."""
    async with connected(node.port if request.param == "broker" else node.controller_port) as client:
        yield client


def about(topic: str = "__cluster_metadata", *indexes: int) -> DescribeQuorumRequest:
    partitions = [RequestedPartition(partition_index=index) for index in indexes or (0,)]
    return DescribeQuorumRequest(topics=[RequestedTopic(topic_name=topic, partitions=partitions)])


async def voter(client: WireClient) -> ReplicaState:
    response: DescribeQuorumResponse = await client.call(about(), 2)
    state: ReplicaState = only(only(only(response.topics).partitions).current_voters)
    return state


@pytest.mark.parametrize("version", range(3))
async def test_the_quorum_of_one_node(node: RunningNode, either: WireClient, version: int) -> None:
    response = await either.call(about(), version)

    topic = only(response.topics)
    partition = only(topic.partitions)
    assert (response.error_code, topic.topic_name) == (0, "__cluster_metadata")
    assert (partition.partition_index, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.observers) == (NODE_ID, [])
    assert partition.leader_epoch >= 1
    state = only(partition.current_voters)
    assert state.replica_id == NODE_ID
    assert state.log_end_offset >= partition.high_watermark > 0
    if version == 0:
        assert (state.last_fetch_timestamp, state.last_caught_up_timestamp) == (UNKNOWN_TIME, UNKNOWN_TIME)
    else:
        assert state.last_fetch_timestamp == state.last_caught_up_timestamp > 0
    if version == 2:
        assert (response.error_message, partition.error_message) == (None, None)
        assert any(state.replica_directory_id)
        described = only(response.nodes)
        listener = only(described.listeners)
        assert (described.node_id, listener.name, listener.port) == (NODE_ID, "CONTROLLER", node.controller_port)


@pytest.mark.parametrize(
    "request_", [about("other"), about("__cluster_metadata", 1), about("__cluster_metadata", 0, 1)]
)
async def test_no_other_partition_has_a_quorum(either: WireClient, request_: DescribeQuorumRequest) -> None:
    response = await either.call(request_, 2)

    assert response.error_code == 0
    assert [
        (topic.topic_name, partition.partition_index, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    ] == [
        (topic.topic_name, partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for topic in request_.topics
        for partition in topic.partitions
    ]


def candidate(
    *,
    cluster_id: str | None = None,
    node_id: int = 2,
    directory_id: bytes = SOMEBODY,
    listener: str = "CONTROLLER",
    timeout_ms: int = 30_000,
) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=listener, host="localhost", port=9093)],
    )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (candidate(cluster_id="elsewhere"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (candidate(node_id=-1), ErrorCode.INVALID_REQUEST),
        (candidate(directory_id=bytes(16)), ErrorCode.INVALID_REQUEST),
        (candidate(listener="INTERNAL"), ErrorCode.INVALID_REQUEST),
        (candidate(node_id=NODE_ID), ErrorCode.DUPLICATE_VOTER),
    ],
)
@pytest.mark.parametrize("version", range(2))
async def test_invalid_voter_is_refused(
    either: WireClient, request_: AddRaftVoterRequest, code: ErrorCode, version: int
) -> None:
    response = await either.call(request_, version)

    assert (response.error_code, bool(response.error_message)) == (code, True)


async def test_unreachable_node_does_not_become_a_voter(node: RunningNode, either: WireClient) -> None:
    response = await either.call(candidate(cluster_id=node.node.cluster_id, timeout_ms=30_000), 0)

    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert response.error_message == "Node 2 does not answer at the address that was given for it"
    assert (await voter(either)).replica_id == NODE_ID


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (RemoveRaftVoterRequest(cluster_id="elsewhere"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (RemoveRaftVoterRequest(cluster_id=None, voter_id=NODE_ID), ErrorCode.INVALID_REQUEST),
        (
            RemoveRaftVoterRequest(cluster_id=None, voter_id=NODE_ID, voter_directory_id=SOMEBODY),
            ErrorCode.VOTER_NOT_FOUND,
        ),
        (RemoveRaftVoterRequest(cluster_id=None, voter_id=7, voter_directory_id=SOMEBODY), ErrorCode.VOTER_NOT_FOUND),
    ],
)
async def test_invalid_removal_of_a_voter_is_refused(
    either: WireClient, request_: RemoveRaftVoterRequest, code: ErrorCode
) -> None:
    response = await either.call(request_, 0)

    assert (response.error_code, bool(response.error_message)) == (code, True)


async def test_the_last_voter_cannot_be_removed(either: WireClient) -> None:
    directory_id = (await voter(either)).replica_directory_id

    response = await either.call(
        RemoveRaftVoterRequest(voter_id=NODE_ID, voter_directory_id=directory_id, cluster_id=None), 0
    )

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert (await voter(either)).replica_id == NODE_ID
