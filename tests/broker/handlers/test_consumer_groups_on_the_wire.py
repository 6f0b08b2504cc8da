"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69) in every version, with a node; and groups that change
between the protocols.
"""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.coordinator.group.consumer.heartbeat import WAITING_INTERVAL_MS
from broker.wire.api.consumer_group_describe import CLASSIC_MEMBER, CONSUMER_MEMBER, ConsumerGroupDescribeRequest
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.sync_group import SyncGroupRequest
from broker.wire.errors import ErrorCode
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

WITHIN_S = 20.0
SETTINGS = {"group_initial_rebalance_delay_ms": 20, "offsets_topic_num_partitions": 2}
VERSIONS = pytest.mark.parametrize("version", range(2))
# Version 1, one topic named "t", no user data, no owned partitions.
SUBSCRIPTION = b"\x00\x01" + b"\x00\x00\x00\x01\x00\x01t" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"


async def ready(client: WireClient) -> None:
    """Wait until there is a coordinator for all groups, and create a topic "t" of two partitions."""
    with trio.fail_after(WITHIN_S):
        while True:
            found = await client.call(FindCoordinatorRequest(key="group"), 3)
            listed = await client.call(ListGroupsRequest(), 4)
            if (found.error_code, listed.error_code) == (0, 0):
                break
            await trio.sleep(0.02)
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        created = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert only(created.topics).error_code == ErrorCode.NONE


def client_of(node: RunningNode) -> Any:
    return connected(node.port)


def joining(member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    given: dict[str, Any] = {
        "group_id": "group",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    return ConsumerGroupHeartbeatRequest(**given)


def beat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="group", member_id=member_id, member_epoch=epoch, **fields)


@VERSIONS
async def test_a_member_comes_and_goes(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await ready(client)
        answer = await client.call(joining("" if version == 0 else "m"), version)
        assert (answer.error_code, answer.error_message, answer.member_epoch) == (ErrorCode.NONE, None, 1)
        assert answer.heartbeat_interval_ms == WAITING_INTERVAL_MS
        member_id = answer.member_id
        assert len(member_id) == 22 if version == 0 else member_id == "m", "until version 1 the id is given to it"
        assert only(answer.assignment.topic_partitions).partitions == [0, 1]
        answer = await client.call(beat(member_id, 1), version)
        assert (answer.member_epoch, answer.assignment) == (1, None), "nothing is new"
        answer = await client.call(beat(member_id, -1), version)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
        answer = await client.call(beat(member_id, 1), version)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@VERSIONS
async def test_heartbeats_that_make_no_sense(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await ready(client)
        for request in (
            joining(group_id=""),
            joining(group_id=" "),
            joining(instance_id=""),
            joining(rack_id=""),
            joining(rebalance_timeout_ms=-1),
            joining(topic_partitions=None),
            joining(subscribed_topic_names=None),
            beat("m", -2),
            beat("m", -3),
            beat("", 1),
            beat("", -1),
            *([joining(""), joining("", member_epoch=-2, instance_id="i")] if version else []),
        ):
            answer = await client.call(request, version)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert answer.error_message
        answer = await client.call(joining(server_assignor="own"), version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        answer = await client.call(beat("m", 1), version)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        if not version:  # a member that was never given an id
            answer = await client.call(joining("", member_epoch=-2, instance_id="i"), version)
            assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await client.call(ListGroupsRequest(), 5)).groups == [], "nothing came of all this"


async def test_regular_expressions_from_version_1_on(tmp_path: Path) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await ready(client)
        answer = await client.call(joining(subscribed_topic_names=None, subscribed_topic_regex="[t]"), 1)
        assert only(answer.assignment.topic_partitions).partitions == [0, 1]
        for wrong in ("[t", "x" * 30_000, ".*" * 3_000):
            answer = await client.call(joining("n", subscribed_topic_names=None, subscribed_topic_regex=wrong), 1)
            assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@VERSIONS
async def test_describing(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await ready(client)
        await client.call(joining(instance_id="i", rack_id="r", server_assignor="range"), 1)
        request = ConsumerGroupDescribeRequest(group_ids=["group", "nowhere", ""], include_authorized_operations=True)
        group, nowhere, nameless = (await client.call(request, version)).groups
        assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 1, 1)
        assert (group.assignor_name, group.authorized_operations > 0) == ("range", True)
        member = only(group.members)
        assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 1)
        assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
        assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], "")
        for assignment in (member.assignment, member.target_assignment):
            topic = only(assignment.topic_partitions)
            assert (topic.topic_name, topic.partitions) == ("t", [0, 1])
        assert member.member_type == (CONSUMER_MEMBER if version else -1)
        assert (nowhere.error_code, nowhere.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "nowhere")
        assert nowhere.error_message
        assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
        classic = only((await client.call(DescribeGroupsRequest(groups=["group"]), 6)).groups)
        assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "it is not a classic group"


@pytest.mark.parametrize("key", [68, 69])
@VERSIONS
async def test_bytes_that_are_no_request_close_the_connection_and_nothing_else(
    tmp_path: Path, key: int, version: int
) -> None:
    async with running_node(tmp_path, **SETTINGS) as node:
        for spoiled in (b"", b"\xff" * 20, b"\x06group\x02m\x00\x00\x00\x00"):
            async with client_of(node) as client:
                header = key.to_bytes(2) + version.to_bytes(2) + (7).to_bytes(4) + b"\x00\x04test\x00"
                frame = header + spoiled
                await client.send_bytes(len(frame).to_bytes(4) + frame)
                await client.expect_close()
        async with client_of(node) as client:
            await ready(client)


def classic_join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="group",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        member_id=member_id,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )


async def classic_member(client: WireClient) -> tuple[str, int]:
    """A new member of the classic protocol: its id and its generation."""
    member_id = (await client.call(classic_join(""), 9)).member_id
    answer = await client.call(classic_join(member_id), 9)
    assert answer.error_code == ErrorCode.NONE
    return member_id, answer.generation_id


async def synced(client: WireClient, member_id: str, generation: int) -> bytes:
    request = SyncGroupRequest(
        group_id="group",
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    answer = await client.call(request, 5)
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (ErrorCode.NONE, "consumer", "range")
    return bytes(answer.assignment)


async def classic_beat(client: WireClient, member_id: str, generation: int) -> ErrorCode:
    request = HeartbeatRequest(group_id="group", generation_id=generation, member_id=member_id)
    return ErrorCode((await client.call(request, 4)).error_code)


def assignment_of(*partitions: int) -> bytes:
    numbers = b"".join(each.to_bytes(4) for each in partitions)
    return b"\x00\x01" + b"\x00\x00\x00\x01\x00\x01t" + len(partitions).to_bytes(4) + numbers + b"\xff" * 4


async def test_a_group_goes_to_the_consumer_protocol_and_back(tmp_path: Path) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await ready(client)
        answer = await client.call(joining(), 1)
        old, generation = await classic_member(client)
        assert generation == 2
        assert await synced(client, old, generation) == b"\x00\x01" + b"\x00" * 4 + b"\xff" * 4, "all is m's still"
        assert await classic_beat(client, old, generation) is ErrorCode.NONE
        answer = await client.call(beat("m", 1, topic_partitions=[]), 1)
        assert answer.member_epoch == 2
        kept = only(answer.assignment.topic_partitions).partitions
        assert await classic_beat(client, old, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await client.call(classic_join(old), 9)).generation_id == 2
        assert await synced(client, old, 2) == assignment_of(*{0, 1} - set(kept))
        await commits(client, old, 2)
        assert await kinds(client) == ("consumer", "Stable", [CONSUMER_MEMBER, CLASSIC_MEMBER])
        await client.call(beat("m", -1), 1)
        assert await kinds(client) == ("classic", "PreparingRebalance", [])
        assert await classic_beat(client, old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        answer = await client.call(classic_join(old), 9)
        assert (answer.generation_id, answer.leader) == (3, old)
        left = LeaveGroupRequest(group_id="group", members=[MemberIdentity(member_id=old)])
        assert only((await client.call(left, 5)).members).error_code == ErrorCode.NONE


async def commits(client: WireClient, member_id: str, generation: int) -> None:
    for said, code in ((generation, ErrorCode.NONE), (generation - 1, ErrorCode.ILLEGAL_GENERATION)):
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        request = OffsetCommitRequest(
            group_id="group",
            member_id=member_id,
            generation_id_or_member_epoch=said,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        assert only(only((await client.call(request, 8)).topics).partitions).error_code == code


async def kinds(client: WireClient) -> tuple[str, str, list[int]]:
    """The group's type and state in ListGroups, and the types of its described members."""
    listed = only((await client.call(ListGroupsRequest(), 5)).groups)
    described = only((await client.call(ConsumerGroupDescribeRequest(group_ids=["group"]), 1)).groups)
    return listed.group_type, listed.group_state, [member.member_type for member in described.members]
