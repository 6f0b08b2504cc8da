"""Groups and their offsets through an Admin, on a running node."""

from pathlib import Path

import pytest
import trio

from broker.client import Admin, KafkaError, NewTopic, OffsetAndMetadata, TopicPartition
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.wire.consumer_protocol import ConsumerProtocolAssignment, OwnedPartitions, encode_assignment
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


async def join_classic(client: WireClient, group_id: str, instance_id: str | None = None) -> str:
    """Joins a group as its only member, takes both partitions, and returns the member's id."""
    member_id = ""
    while True:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
        )
        joined: JoinGroupResponse = await client.call(request, 9)
        member_id = joined.member_id
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            break
    assert joined.error_code == 0
    assignment = ConsumerProtocolAssignment(assigned_partitions=[OwnedPartitions(topic="orders", partitions=[0, 1])])
    synced = await client.call(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(assignment, 1))],
        ),
        5,
    )
    assert synced.error_code == 0
    return member_id


async def join_consumer(client: WireClient, group_id: str) -> str:
    """Joins a group of the consumer protocol and returns the member's id."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="M" * 22,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    with trio.fail_after(10):
        while (joined := await client.call(request, 1)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await trio.sleep(0.02)
    assert joined.error_code == 0, joined.error_message
    return request.member_id


async def with_orders(admin: Admin) -> None:
    """Create a topic and, by a first request about a group, the topic of the coordinators."""
    (await admin.create_topics([NewTopic("orders", 2)])).raise_first()
    assert (await admin.describe_groups(["classic"])).failed


async def test_groups_of_both_protocols_are_listed_filtered_and_described(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, group_initial_rebalance_delay_ms=0) as node,
        Admin(f"127.0.0.1:{node.port}") as admin,
        connected(node.port) as client,
    ):
        await with_orders(admin)
        (await admin.alter_group_offsets("offsets", {P0: 0})).raise_first()
        classic_id = await join_classic(client, "classic", "static")
        consumer_id = await join_consumer(client, "consumer")
        listed = {each.group_id: each for each in (await admin.list_groups()).chained()}
        assert {name: (each.type, each.state, each.is_simple) for name, each in listed.items()} == {
            "classic": ("classic", "Stable", False),
            "consumer": ("consumer", "Stable", False),
            "offsets": ("classic", "Empty", True),
        }
        assert await _listed(admin, states=["Empty"]) == ["offsets"]
        assert await _listed(admin, types=["consumer"]) == ["consumer"]
        assert await _listed(admin, protocol_types=["consumer"]) == ["classic", "consumer"]
        described = await admin.describe_groups(
            ["classic", "consumer", "offsets", "nowhere"], include_authorized_operations=True
        )
        assert list(described.failed) == ["nowhere"]
        assert _code(described["nowhere"]) == ErrorCode.GROUP_ID_NOT_FOUND
        classic, consumer = described.value("classic"), described.value("consumer")
        assert (classic.type, classic.state, classic.assignor, classic.group_epoch) == (
            "classic",
            "Stable",
            "range",
            None,
        )
        (member,) = classic.members
        assert (member.member_id, member.instance_id, member.assignment) == (classic_id, "static", (P0, P1))
        assert member.client_id == "test"
        (member,) = consumer.members
        assert (consumer.type, consumer.assignor) == ("consumer", "uniform")
        assert (member.member_id, member.target_assignment, member.is_classic) == (consumer_id, (P0, P1), False)
        assert member.subscribed_topics == ("orders",)
        assert consumer.coordinator.id == 1
        assert consumer.authorized_operations


async def test_members_are_removed_by_instance_id_or_all_together_kip_345(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, group_initial_rebalance_delay_ms=0) as node,
        Admin(f"127.0.0.1:{node.port}") as admin,
        connected(node.port) as client,
    ):
        await with_orders(admin)
        await join_classic(client, "static", "one")
        results = await admin.remove_members_from_group("static", ["one", "two"])
        assert list(results.succeeded) == ["one"]
        assert _code(results["two"]) == ErrorCode.UNKNOWN_MEMBER_ID
        member_id = await join_classic(client, "dynamic")
        busy = await admin.delete_groups(["dynamic"])
        assert _code(busy["dynamic"]) == ErrorCode.NON_EMPTY_GROUP
        assert "remove its members" in str(busy["dynamic"])
        assert list((await admin.remove_members_from_group("dynamic")).raise_first()) == [member_id]
        (await admin.delete_groups(["dynamic"])).raise_first()
        with pytest.raises(KafkaError) as raised:
            await admin.remove_members_from_group("nowhere")
        assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_groups_are_set_listed_and_deleted(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        await with_orders(admin)
        nowhere = TopicPartition("nowhere", 0)
        set_offsets = await admin.alter_group_offsets(
            "group", {P1: OffsetAndMetadata(9, leader_epoch=0, metadata="note"), nowhere: 1, P0: 7}
        )
        assert list(set_offsets) == [P1, nowhere, P0], "in the order of the call"
        assert list(set_offsets.succeeded) == [P1, P0]
        assert _code(set_offsets[nowhere]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        listed = await admin.list_group_offsets({"group": None, "other": [P0]}, require_stable=True)
        assert dict(listed.value("group")) == {P0: OffsetAndMetadata(7), P1: OffsetAndMetadata(9, 0, "note")}
        assert dict(listed.value("other")) == {P0: None}
        assert dict((await admin.list_group_offsets({"group": [P1]})).value("group")) == {
            P1: OffsetAndMetadata(9, 0, "note")
        }
        (await admin.delete_group_offsets("group", [P0])).raise_first()
        assert list((await admin.list_group_offsets({"group": None})).value("group")) == [P1]
        with pytest.raises(KafkaError) as raised:
            await admin.delete_group_offsets("nowhere", [P0])
        assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_a_group_with_members_are_not_changed(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, group_initial_rebalance_delay_ms=0) as node,
        Admin(f"127.0.0.1:{node.port}") as admin,
        connected(node.port) as client,
    ):
        await with_orders(admin)
        await join_consumer(client, "group")
        results = await admin.alter_group_offsets("group", {P0: 1})
        assert _code(results[P0]) == ErrorCode.UNKNOWN_MEMBER_ID
        results = await admin.delete_group_offsets("group", [P0])
        assert _code(results[P0]) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


async def test_deleting_groups_reports_those_that_are_not_there(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        await with_orders(admin)
        (await admin.alter_group_offsets("group", {P0: 1})).raise_first()
        results = await admin.delete_groups(["group", "nowhere"])
        assert list(results.succeeded) == ["group"]
        assert _code(results["nowhere"]) == ErrorCode.GROUP_ID_NOT_FOUND


async def _listed(admin: Admin, **filters: list[str]) -> list[str]:
    listed = await admin.list_groups(**filters)  # type: ignore[arg-type]
    return sorted(each.group_id for each in listed.chained())


def _code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code
