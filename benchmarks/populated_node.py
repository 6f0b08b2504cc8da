"""A node in this process with much metadata: its own topics, partitions of a broker that does not run, and groups."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from benchmarks.blocking_client import BlockingClient
from benchmarks.largest_requests import Names
from benchmarks.node_here import node_here
from broker.coordinator.runtime.runtime import CoordinatorKeyType
from broker.node import Node
from broker.wire.api import initialize_share_group_state
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from broker.wire.api.broker_registration import BrokerRegistrationRequest
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.errors import ErrorCode
from broker.wire.registered import Feature, Listener
from broker.wire.uuids import encode_uuid
from metadata.controller import SUPPORTED_FEATURES

NODE_ID, ABSENT_ID = 1, 2
PARTITIONS_PER_TOPIC = 10
_TOPICS_PER_REQUEST = 100
_TIMEOUT_MS = 60_000
_FAR = 1 << 40


@attrs.frozen
class PopulatedNode:
    node: Node
    port: int
    controller_port: int
    http_port: int
    names: Names


@asynccontextmanager
async def populated_node(
    directory: Path, topics: int, absent_partitions: int, groups: int
) -> AsyncIterator[PopulatedNode]:
    """Run a node with `topics` of one partition each. `absent_partitions` are on a broker that is only registered."""
    settings = {
        "http.listener": "127.0.0.1:0",  # without it, telemetry is not served
        "broker.session.timeout.ms": 3_600_000,
        "group.initial.rebalance.delay.ms": 0,
        "log.initial.task.delay.ms": 3_600_000,  # no periodic log tasks while requests are measured
        "offsets.topic.replication.factor": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
    }
    async with node_here(directory, settings) as node:
        ports = {bound.listener.name: bound.port for bound in node.bound}
        port, controller_port = ports["PLAINTEXT"], ports["CONTROLLER"]
        await trio.to_thread.run_sync(_create_internal_topics, port)
        with BlockingClient(controller_port) as absent:
            await trio.to_thread.run_sync(_register, absent, node.cluster_id)
            names = await trio.to_thread.run_sync(_populate, port, topics, absent_partitions, groups)
            yield PopulatedNode(node, port, controller_port, ports["HTTP"], names)


def _create_internal_topics(port: int) -> None:
    """Create the topics of the coordinators while the node is the only broker. Otherwise the absent one would get some
    of their partitions, and with these some of the groups.
    """
    keys = {CoordinatorKeyType.GROUP: "group", CoordinatorKeyType.SHARE: f"group:{encode_uuid(bytes(16))}:0"}
    with BlockingClient(port) as client:
        for key_type, key in keys.items():
            found = client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 6)
            assert not found.coordinators[0].error_code, found


def _register(client: BlockingClient, cluster_id: str) -> None:
    """Register and unfence a broker that does not run. It counts as alive while the connection is open."""
    registration = BrokerRegistrationRequest(
        broker_id=ABSENT_ID,
        cluster_id=cluster_id,
        incarnation_id=b"\1" * 16,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
        features=[
            Feature(name=name, min_supported_version=levels[0], max_supported_version=levels[1])
            for name, levels in SUPPORTED_FEATURES.items()
        ],
        log_dirs=[b"\2" * 16],
    )
    registered = client.call(registration, 4)
    assert not registered.error_code, registered
    heartbeat = BrokerHeartbeatRequest(
        broker_id=ABSENT_ID, broker_epoch=registered.broker_epoch, current_metadata_offset=_FAR, want_fence=False
    )
    beaten = client.call(heartbeat, 1)
    assert not beaten.error_code, beaten
    assert not beaten.is_fenced, beaten


def _populate(port: int, topics: int, absent_partitions: int, groups: int) -> Names:
    names = [f"topic-{number:05}" for number in range(topics)]
    absent = [f"absent-{number:05}" for number in range(absent_partitions // PARTITIONS_PER_TOPIC)]
    with BlockingClient(port) as client:
        _create(client, [_assigned(name, 1, NODE_ID) for name in names])
        _create(client, [_assigned(name, PARTITIONS_PER_TOPIC, ABSENT_ID) for name in absent])
        described = client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        ids = {topic.name: topic.topic_id for topic in described.topics}
        group_ids = [f"group-{number:05}" for number in range(groups)]
        for group_id in group_ids:
            _join_and_commit(client, group_id, names[0])
        _initialize_share_state(client, group_ids[0], ids[names[0]])
    return Names(names, [ids[name] for name in names], group_ids)


def _initialize_share_state(client: BlockingClient, group_id: str, topic_id: bytes) -> None:
    """Give the first partition of a topic a state for a group. Its coordinator may still be loading."""
    partition = initialize_share_group_state.PartitionData(partition=0, state_epoch=0, start_offset=0)
    state = initialize_share_group_state.InitializeStateData(topic_id=topic_id, partitions=[partition])
    request = initialize_share_group_state.InitializeShareGroupStateRequest(group_id=group_id, topics=[state])
    key = f"{group_id}:{encode_uuid(topic_id)}:0"
    while True:
        client.call(FindCoordinatorRequest(key_type=CoordinatorKeyType.SHARE, coordinator_keys=[key]), 6)
        ((result,),) = (each.partitions for each in client.call(request, 0).results)
        if result.error_code == ErrorCode.NONE:
            return
        assert result.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), result


def _assigned(name: str, partitions: int, broker_id: int) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[broker_id]) for index in range(partitions)
    ]
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)


def _create(client: BlockingClient, topics: Sequence[CreatableTopic]) -> None:
    for first in range(0, len(topics), _TOPICS_PER_REQUEST):
        wanted = list(topics[first : first + _TOPICS_PER_REQUEST])
        created = client.call(CreateTopicsRequest(topics=wanted, timeout_ms=_TIMEOUT_MS), 7)
        assert not any(topic.error_code for topic in created.topics), created.topics[0]


def _join_and_commit(client: BlockingClient, group_id: str, topic: str) -> None:
    """A simple group with an offset, then a classic one with a member."""
    offset = OffsetCommitRequestPartition(committed_offset=1, committed_metadata="")
    client.call(
        OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[offset])]),
        8,
    )
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1_800_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff" * 4)],
    )
    client.call(join, 3)
