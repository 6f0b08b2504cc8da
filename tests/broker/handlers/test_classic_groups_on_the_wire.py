"""The APIs of classic groups, in every version, with a node."""

from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

WITHIN_S = 20.0
PROTOCOLS_MAX = 100
ASSIGNMENTS_MAX = 20_000
SETTINGS = {"group_initial_rebalance_delay_ms": 20, "offsets_topic_num_partitions": 2}


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    fields.setdefault("protocols", [JoinGroupRequestProtocol(name="range", metadata=b"wishes")])
    given = {"group_id": "group", "session_timeout_ms": 10_000, "protocol_type": "consumer", **fields}
    return JoinGroupRequest(**given, member_id=member_id, rebalance_timeout_ms=20_000)


async def coordinated(client: WireClient) -> None:
    """Wait until there is a coordinator for all groups."""
    with trio.fail_after(WITHIN_S):
        while True:
            found = await client.call(FindCoordinatorRequest(key="group"), 3)
            listed = await client.call(ListGroupsRequest(), 4)
            if (found.error_code, listed.error_code) == (0, 0):
                return
            await trio.sleep(0.02)


async def joined(client: WireClient, version: int, **fields: Any) -> Any:
    """The response to a join of the only member."""
    answer = await client.call(join_request(**fields), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await client.call(join_request(answer.member_id, **fields), version)
    assert answer.error_code == ErrorCode.NONE
    return answer


async def stable(client: WireClient, version: int = 9, assignment: bytes = b"all", **fields: Any) -> str:
    """The id of a member that is alone, and has its assignment."""
    member_id: str = (await joined(client, version, **fields)).member_id
    group_id = fields.get("group_id", "group")
    assigned = SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
    answer = await client.call(
        SyncGroupRequest(group_id=group_id, generation_id=1, member_id=member_id, assignments=[assigned]), 4
    )
    assert (answer.error_code, answer.assignment) == (0, assignment)
    return member_id


@pytest.mark.parametrize("name", ["a" * 32767, "\u00e9" * 16383])
async def test_member_id_of_a_client_with_the_longest_name_fits_the_response(tmp_path: Path, name: str) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, connected(node.port) as client:
        await coordinated(client)
        answer = await joined(client, 5, group_instance_id=name)
        assert answer.member_id.startswith(name[:16000])
        assert len(answer.member_id.encode()) <= 32767
        assert await stable(client, 9, group_instance_id=name, group_id="other")


def client_of(node: RunningNode) -> Any:
    return connected(node.port)


@pytest.mark.parametrize("version", range(10))
async def test_join(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        answer = await joined(client, version)
        assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, answer.member_id, "range")
        assert answer.protocol_type == ("consumer" if version >= 7 else None)
        member = only(answer.members)
        assert (member.member_id, member.metadata) == (answer.member_id, b"wishes")
        described = only((await client.call(DescribeGroupsRequest(groups=["group"]), 5)).groups)
        assert described.group_state == "CompletingRebalance"
        assert (described.members[0].client_id, described.members[0].client_host) == ("test", "/127.0.0.1")


@pytest.mark.parametrize("version", range(10))
async def test_join_refused(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        for fields, code in (
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
            ({"session_timeout_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
            ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ):
            answer = await client.call(join_request(**fields), version)
            assert (answer.error_code, answer.generation_id) == (code, -1)
            assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(6))
async def test_sync(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        member_id = (await joined(client, 9)).member_id
        request = SyncGroupRequest(
            group_id="group",
            generation_id=1,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
        )
        answer = await client.call(request, version)
        assert (answer.error_code, answer.assignment) == (0, b"all")
        assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
        request.group_id = ""
        assert (await client.call(request, version)).error_code == ErrorCode.INVALID_GROUP_ID
        request.group_id, request.protocol_name = "group", None
        expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else ErrorCode.NONE
        assert (await client.call(request, version)).error_code == expected
        request.group_id = ""
        expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else ErrorCode.INVALID_GROUP_ID
        assert (await client.call(request, version)).error_code == expected


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
async def test_protocol_without_a_name_is_null_in_the_response_from_version_7_on(
    tmp_path: Path, version: int, name: str | None
) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        request = join_request(group_instance_id="i")
        only(request.protocols).name = ""
        answer = await client.call(request, version)
        assert (answer.error_code, answer.protocol_name) == (0, name)


@pytest.mark.parametrize("version", range(5))
async def test_heartbeat(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        member_id = await stable(client)
        for fields, code in (
            ({}, ErrorCode.NONE),
            ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_id": "nowhere"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ):
            given = {"group_id": "group", "generation_id": 1, "member_id": member_id, **fields}
            assert (await client.call(HeartbeatRequest(**given), version)).error_code == code


@pytest.mark.parametrize("version", range(6))
async def test_leave(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        member_id = await stable(client)
        for group_id, name, code in (
            ("nowhere", member_id, ErrorCode.UNKNOWN_MEMBER_ID),
            ("group", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
            ("group", member_id, ErrorCode.NONE),
        ):
            members = [MemberIdentity(member_id=name)] if version >= 3 else []
            request = LeaveGroupRequest(group_id=group_id, member_id="" if members else name, members=members)
            answer = await client.call(request, version)
            of_member = only(answer.members).error_code if members else answer.error_code
            assert (of_member, answer.error_code) == (code, 0 if members else code)
        refused = await client.call(LeaveGroupRequest(group_id="", members=[]), version)
        assert refused.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(7))
async def test_describe(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        member_id = await stable(client, group_instance_id="a")
        request = DescribeGroupsRequest(groups=["group", "nowhere"], include_authorized_operations=version >= 3)
        group, nowhere = (await client.call(request, version)).groups
        assert (group.group_id, group.group_state, group.protocol_type, group.protocol_data) == (
            "group",
            "Stable",
            "consumer",
            "range",
        )
        member = only(group.members)
        assert (member.member_id, member.member_metadata, member.member_assignment) == (member_id, b"wishes", b"all")
        assert member.group_instance_id == ("a" if version >= 4 else None)
        assert (group.authorized_operations > 0) == (version >= 3)
        is_told = version >= 6
        assert (nowhere.group_state, nowhere.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND if is_told else 0)
        assert nowhere.error_message == ("Group nowhere not found." if is_told else None)


@pytest.mark.parametrize("version", range(6))
async def test_list(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        for name in ("first", "second"):
            await stable(client, group_id=name)
        await client.call(LeaveGroupRequest(group_id="second", members=[MemberIdentity(group_instance_id="none")]), 5)
        listed = (await client.call(ListGroupsRequest(), version)).groups
        assert sorted(each.group_id for each in listed) == ["first", "second"]
        assert {each.protocol_type for each in listed} == {"consumer"}
        assert {each.group_state for each in listed} == {"Stable" if version >= 4 else ""}
        assert {each.group_type for each in listed} == {"classic" if version >= 5 else ""}
        if version >= 4:
            assert not (await client.call(ListGroupsRequest(states_filter=["Empty"]), version)).groups


@pytest.mark.parametrize("version", range(4))
async def test_delete(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        await stable(client, group_id="busy")
        member_id = await stable(client, group_id="idle")
        await client.call(LeaveGroupRequest(group_id="idle", members=[MemberIdentity(member_id=member_id)]), 5)
        names = ["idle", "busy", "nowhere", "idle"]
        results = (await client.call(DeleteGroupsRequest(groups_names=names), version)).results
        assert {each.group_id: each.error_code for each in results} == {
            "idle": ErrorCode.NONE,
            "busy": ErrorCode.NON_EMPTY_GROUP,
            "nowhere": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert len(results) == 3
        assert [each.group_id for each in (await client.call(ListGroupsRequest(), 5)).groups] == ["busy"]


async def test_members_of_a_node_without_coordinators_look_elsewhere(tmp_path: Path) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        answer = await client.call(join_request(), 9)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        described = only((await client.call(DescribeGroupsRequest(groups=["group"]), 6)).groups)
        assert described.error_code == ErrorCode.NOT_COORDINATOR
        deleted = only((await client.call(DeleteGroupsRequest(groups_names=["group"]), 2)).results)
        assert deleted.error_code == ErrorCode.NOT_COORDINATOR


async def test_the_generation_outlives_its_coordinator(tmp_path: Path) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        member_id = await stable(client)
        node.crash()
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as client:
        await coordinated(client)
        beat = HeartbeatRequest(group_id="group", generation_id=1, member_id=member_id)
        assert (await client.call(beat, 4)).error_code == ErrorCode.NONE


async def test_group_of_several_mib_is_kept_in_a_compressed_offsets_topic(tmp_path: Path) -> None:
    """The bound for what a producer's compressed batch may hold is not meant for the coordinator."""
    settings = {**SETTINGS, "offsets_topic_compression_codec": Compression.GZIP}
    assignment = bytes(5 << 20)
    async with running_node(tmp_path, **settings) as node, client_of(node) as client:
        await coordinated(client)
        member_id = await stable(client, assignment=assignment)
        node.crash()
    async with running_node(tmp_path, **settings) as node, client_of(node) as client:
        await coordinated(client)
        answer = await client.call(SyncGroupRequest(group_id="group", generation_id=1, member_id=member_id), 4)
        assert (answer.error_code, answer.assignment) == (0, assignment)


async def test_waiting_member_is_answered_after_requests_of_others(tmp_path: Path) -> None:
    async with running_node(tmp_path, **SETTINGS) as node, client_of(node) as first, client_of(node) as second:
        await coordinated(first)
        leader = await stable(first)
        newcomer = (await second.call(join_request(), 9)).member_id
        await second.send(join_request(newcomer), 9)
        beat = HeartbeatRequest(group_id="group", generation_id=1, member_id=leader)
        with trio.fail_after(WITHIN_S):
            while (await first.call(beat, 4)).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                await trio.sleep(0.01)
        told = await first.call(join_request(leader), 9)
        assert [each.member_id for each in told.members] == [leader, newcomer]
        assert (await second.receive()).leader == leader
        await second.send(SyncGroupRequest(group_id="group", generation_id=2, member_id=newcomer), 4)
        assignment = SyncGroupRequestAssignment(member_id=newcomer, assignment=b"half")
        request = SyncGroupRequest(group_id="group", generation_id=2, member_id=leader, assignments=[assignment])
        assert (await first.call(request, 4)).assignment == b""
        assert (await second.receive()).assignment == b"half"


async def test_numbers_of_protocols_and_of_assignments_are_bounded(tmp_path: Path) -> None:
    """All protocols of all members are counted in each decision: 50,000 of them held the event loop for 60 ms."""
    protocols = [JoinGroupRequestProtocol(name=f"p{number}") for number in range(PROTOCOLS_MAX + 1)]
    assignments = [SyncGroupRequestAssignment(member_id=str(number)) for number in range(ASSIGNMENTS_MAX + 1)]
    async with running_node(tmp_path, **SETTINGS) as node:
        async with connected(node.port) as client:
            await coordinated(client)
            assert (await joined(client, 9, protocols=protocols[:-1])).protocol_name == "p0"
            sync = SyncGroupRequest(group_id="no-group", assignments=assignments[:-1])
            assert (await client.call(sync, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        for request in (
            join_request(protocols=protocols),
            SyncGroupRequest(group_id="group", assignments=assignments),
        ):
            async with connected(node.port) as client:
                await client.send(request, 4)
                await client.expect_close()
