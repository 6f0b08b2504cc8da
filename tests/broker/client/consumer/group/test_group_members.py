"""Members of groups with both protocols, with a running node and real sockets."""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client.consumer.group import AssignmentError, CommitFailed
from broker.client.consumer.group.assignors import LastAssignment, MemberSubscription, StickyAssignor
from broker.client.consumer.group.assignors.assignor import Assignments, TopicRacks
from broker.client.errors import UnsupportedByBroker
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.client_members import WITHIN_S, ClientMember, client_member, until_owned
from tests.support.requests import create_topic
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import connected

FOUR = ["a0", "a1", "a2", "a3"]
CLASSIC: list[dict[str, Any]] = [
    {"group_protocol": "classic", "partition_assignment_strategy": [name]}
    for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
]
BOTH = [CLASSIC[3], {"group_protocol": "consumer"}]
ALL = [*CLASSIC, {"group_protocol": "consumer"}, {"group_protocol": "consumer", "group_remote_assignor": "range"}]


@asynccontextmanager
async def node_with_topic(directory: Path, **overrides: object) -> AsyncIterator[RunningNode]:
    quick = {
        "group_initial_rebalance_delay_ms": 0,
        "group_consumer_min_heartbeat_interval_ms": 200,
        "group_consumer_heartbeat_interval_ms": 200,
        **overrides,
    }
    async with running_node(directory, **quick) as node:
        async with connected(node.port) as client:
            await create_topic(client, "a", partitions=4)
        yield node


def name_of(settings: dict[str, Any]) -> str:
    strategy = settings.get("partition_assignment_strategy", [settings.get("group_remote_assignor", "default")])
    return f"{settings['group_protocol']}-{strategy[0] if isinstance(strategy, list) else strategy}"


@pytest.mark.parametrize("settings", ALL, ids=name_of)
async def test_members_share_a_topic_and_take_over_partitions_of_leaving_members(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as first:
        await until_owned([first], FOUR)
        async with client_member(node.port, "g", **settings) as second:
            await until_owned([first, second], FOUR)
            with trio.fail_after(WITHIN_S):
                while len(first.names()) != 2 or len(second.names()) != 2:
                    await trio.sleep(0.01)
        await until_owned([first], FOUR)
        assert second.kinds()[-1] == "revoked"
        assert "lost" not in first.kinds() + second.kinds()
        assert_alternating(first)
    assert first.names() == []


def assert_alternating(member: ClientMember) -> None:
    """A partition is assigned only while it is not owned, and revoked only while it is."""
    owned: set[TopicPartition] = set()
    for kind, partitions in member.events:
        if kind == "assigned":
            assert not owned & set(partitions), member.events
            owned |= set(partitions)
        else:
            assert set(partitions) <= owned, member.events
            owned -= set(partitions)


async def until(condition: Any) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():
            await trio.sleep(0.01)


async def remove(node: RunningNode, group: str, member_id: str) -> None:
    """Remove the member from the group, as an administrator does."""
    async with connected(node.port) as client:
        members = [MemberIdentity(member_id=member_id)]
        response = await client.call(LeaveGroupRequest(group_id=group, members=members), 5)
        assert response.members[0].error_code == ErrorCode.NONE


# Choice of the protocol


async def test_the_consumer_protocol_is_the_default_where_the_cluster_has_it_kip_848(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g") as member:
        await until_owned([member], FOUR)
        assert member.member.group_metadata().generation_id > 0
        assert type(member.member._membership).__name__ == "ConsumerDriver"


async def test_members_that_choose_assignors_are_classic(tmp_path: Path) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", partition_assignment_strategy=["sticky"]) as member,
    ):
        await until_owned([member], FOUR)
        assert type(member.member._membership).__name__ == "ClassicDriver"


async def test_members_are_classic_where_the_cluster_has_not_finalized_group_version(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        async with connected(node.port) as client:
            lowered = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
            response = await client.call(UpdateFeaturesRequest(feature_updates=[lowered]), 2)
            assert response.error_code == ErrorCode.NONE
        async with client_member(node.port, "g") as member:
            await until_owned([member], FOUR)
            assert type(member.member._membership).__name__ == "ClassicDriver"
        async with client_member(node.port, "h", group_protocol="consumer") as member:
            await until(lambda: bool(member.errors))
            assert isinstance(member.errors[0], UnsupportedByBroker)


# Rebalances


async def test_an_eager_rebalance_revokes_all_and_a_cooperative_one_moving_partitions(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        for settings, revoked in ((CLASSIC[0], 4), (CLASSIC[3], 2), (BOTH[1], 2)):
            group = name_of(settings)
            async with client_member(node.port, group, **settings) as first:
                await until_owned([first], FOUR)
                async with client_member(node.port, group, **settings) as second:
                    await until(lambda: len(first.names()) == len(second.names()) == 2)
                    taken = [len(partitions) for kind, partitions in first.events if kind == "revoked" and partitions]
                    assert taken[0] == revoked


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_a_member_that_was_removed_loses_its_partitions_and_joins_again(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as member:
        await until_owned([member], FOUR)
        before = member.member.group_metadata()
        await remove(node, "g", before.member_id)
        await until(lambda: "lost" in member.kinds())
        await until_owned([member], FOUR)
        assert member.kinds() == ["assigned", "lost", "assigned"]
        assert member.member.group_metadata() != before


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_a_member_that_does_not_poll_leaves_until_its_next_poll(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", **settings, max_poll_interval_ms=1_000) as slow,
        client_member(node.port, "g", **settings) as quick,
    ):
        await until(lambda: len(slow.names()) == len(quick.names()) == 2)
        slow.is_polling = False
        await until_owned([quick], FOUR)
        assert len(slow.names()) == 2  # it does not know yet
        slow.is_polling = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.poll)
            await until(lambda: slow.kinds()[-2:] == ["lost", "assigned"])
            await until(lambda: len(slow.names()) == len(quick.names()) == 2)
            slow.is_polling = False


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_a_removed_member_that_does_not_poll_stays_away_and_then_loses_its_partitions(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """It must not join while it has its old positions: other members may have committed beyond them."""
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", **settings, max_poll_interval_ms=1_000) as slow,
    ):
        await until_owned([slow], FOUR)
        slow.is_polling = False
        await remove(node, "g", slow.member.group_metadata().member_id)
        await until(lambda: not slow.member._membership.is_member)  # type: ignore[union-attr]
        await until(lambda: slow.member._polls.is_expired)
        with trio.move_on_after(0.5):
            await until(lambda: slow.member._membership.is_member)  # type: ignore[union-attr]
        assert not slow.member._membership.is_member  # type: ignore[union-attr]
        slow.is_polling = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.poll)
            await until(lambda: slow.kinds() == ["assigned", "lost", "assigned"])
            slow.is_polling = False


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_a_static_member_comes_back_to_its_partitions_kip_345(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as other:
        static = {**settings, "group_instance_id": "one"}
        async with client_member(node.port, "g", **static) as first:
            await until(lambda: len(first.names()) == len(other.names()) == 2)
            had, events = first.names(), len(other.events)
        async with client_member(node.port, "g", **static) as second:
            await until(lambda: second.names() == had)
        assert len(other.events) == events


async def test_a_second_member_with_an_instance_id_fences_the_first_kip_345(tmp_path: Path) -> None:
    static = {**CLASSIC[0], "group_instance_id": "one"}
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **static) as first:
        await until_owned([first], FOUR)
        async with client_member(node.port, "g", **static) as second:
            await until(lambda: bool(first.errors))
            assert isinstance(first.errors[0], KafkaError)
            assert first.errors[0].code == ErrorCode.FENCED_INSTANCE_ID
            assert first.kinds() == ["assigned", "lost"]
            await until_owned([second], FOUR)


async def test_an_instance_id_that_is_in_use_is_refused_kip_848(tmp_path: Path) -> None:
    static = {"group_protocol": "consumer", "group_instance_id": "one"}
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **static) as first:
        await until_owned([first], FOUR)
        async with client_member(node.port, "g", **static) as second:
            await until(lambda: bool(second.errors))
            assert isinstance(second.errors[0], KafkaError)
            assert second.errors[0].code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert first.names() == FOUR


# Subscriptions


PATTERNS = [
    pytest.param(CLASSIC[3], "a|new.*", id="classic-text"),
    pytest.param(CLASSIC[3], re.compile("a|new.*"), id="classic-compiled"),
    pytest.param(BOTH[1], re.compile("a|new.*"), id="consumer-compiled"),
]


@pytest.mark.parametrize(("settings", "pattern"), PATTERNS)
async def test_a_pattern_finds_topics_that_are_created_later(
    tmp_path: Path, settings: dict[str, Any], pattern: Any
) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", pattern=pattern, **settings, metadata_max_age_ms=300) as member,
        connected(node.port) as client,
    ):
        await until_owned([member], FOUR)
        await create_topic(client, "new1", partitions=1)
        await create_topic(client, "annoying", partitions=1)
        await until_owned([member], [*FOUR, "new10"])


async def test_the_coordinator_evaluates_a_pattern_given_as_text_kip_848(tmp_path: Path) -> None:
    """The member does not know the topics before they are assigned to it."""
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        await create_topic(client, "new1", partitions=1)
        await create_topic(client, "annoying", partitions=1)
        async with client_member(node.port, "g", pattern="a|new[0-9]", group_protocol="consumer") as member:
            await until_owned([member], [*FOUR, "new10"])
        async with client_member(node.port, "h", pattern="a(", group_protocol="consumer") as member:
            await until(lambda: bool(member.errors))
            assert isinstance(member.errors[0], KafkaError)
            assert member.errors[0].code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_partitions_that_are_added_are_assigned(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", **settings, metadata_max_age_ms=300) as member,
        connected(node.port) as client,
    ):
        await until_owned([member], FOUR)
        topic = CreatePartitionsTopic(name="a", count=5, assignments=None)
        response = await client.call(CreatePartitionsRequest(topics=[topic], timeout_ms=5_000), 3)
        assert response.results[0].error_code == ErrorCode.NONE
        await until_owned([member], [*FOUR, "a4"])
        assert member.kinds() == ["assigned", "assigned"]


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_another_subscription_replaces_the_first(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        connected(node.port) as client,
        client_member(node.port, "g", **settings) as member,
    ):
        await create_topic(client, "b", partitions=2)
        await until_owned([member], FOUR)
        member.member.subscribe(["b"], listener=member)
        await until_owned([member], ["b0", "b1"])
        assert member.kinds() == ["assigned", "revoked", "assigned"]
        await member.member.unsubscribe()
        assert member.names() == []
        member.member.subscribe(["a", "b"], listener=member)
        await until_owned([member], [*FOUR, "b0", "b1"])


# Custom assignors


class LastAssignor:
    """Assigns everything to the last member."""

    name = "last"
    is_cooperative = False

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        return None

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        assigned: Assignments = {member: [] for member in members}
        assigned[max(members)] = [TopicPartition(name, index) for name in topics for index in range(len(topics[name]))]
        return assigned


class HastyAssignor(StickyAssignor):
    """Claims to be cooperative, but assigns partitions that others still own."""

    name = "hasty"
    is_cooperative = True

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        return super().assign(topics, dict(members))


async def test_applications_bring_their_own_assignors(tmp_path: Path) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", assignors=[LastAssignor()]) as first,
        client_member(node.port, "g", assignors=[LastAssignor()]) as second,
    ):
        await until(lambda: bool(first.events and second.events))
        await until_owned([first, second], FOUR)
        assert sorted([len(first.names()), len(second.names())]) == [0, 4]


async def test_an_assignor_that_breaks_the_cooperative_rule_is_reported_kip_429(tmp_path: Path) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", assignors=[HastyAssignor()]) as first,
    ):
        await until_owned([first], FOUR)
        async with client_member(node.port, "g", assignors=[HastyAssignor()]) as second:
            await until(lambda: bool(first.errors or second.errors))
            assert any(isinstance(error, AssignmentError) for error in [*first.errors, *second.errors])


# Offsets


@pytest.mark.parametrize("settings", ALL[2:5], ids=name_of)
async def test_offsets_are_committed_before_partitions_move(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as first:
        await until_owned([first], FOUR)
        first.state.positions = dict.fromkeys(first.state.positions, 7)
        async with client_member(node.port, "g", **settings) as second:
            await until(lambda: len(first.names()) == len(second.names()) == 2)
            committed = await second.member.committed(list(second.state.positions))
        assert set(committed.values()) == {OffsetAndMetadata(7)}


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_commits_of_a_removed_member_fail(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", **settings, enable_auto_commit=False, heartbeat_interval_ms=5_000) as member,
    ):
        await until_owned([member], FOUR)
        await remove(node, "g", member.member.group_metadata().member_id)
        with pytest.raises(CommitFailed):
            await member.member.commit({TopicPartition("a", 0): OffsetAndMetadata(3)})
        await until(lambda: member.kinds() == ["assigned", "lost", "assigned"])


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_commits_are_made_in_the_order_of_the_calls(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as member:
        await until_owned([member], FOUR)
        partition, heard = TopicPartition("a", 1), []
        for offset in range(50):
            offsets = {partition: OffsetAndMetadata(offset, None, f"note {offset}")}
            member.member.commit_soon(offsets, lambda offsets, error: heard.append((offsets[partition].offset, error)))
        await member.member.commit({partition: OffsetAndMetadata(50, 4, "last")})
        with pytest.raises(ValueError, match="negative"):
            await member.member.commit({partition: OffsetAndMetadata(-1)})
        assert heard == [(offset, None) for offset in range(50)]
        committed = await member.member.committed([partition, TopicPartition("a", 2)])
        assert committed == {partition: OffsetAndMetadata(50, 4, "last"), TopicPartition("a", 2): None}


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_polls_auto_commit_the_records_of_earlier_polls(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", **settings, auto_commit_interval_ms=50) as member,
    ):
        await until_owned([member], FOUR)
        member.state.positions[TopicPartition("a", 3)] = 9
        with trio.fail_after(WITHIN_S):
            while (await member.member.committed([TopicPartition("a", 3)])).popitem()[1] != OffsetAndMetadata(9):
                await trio.sleep(0.02)


async def test_polls_auto_commit_without_a_subscription(tmp_path: Path) -> None:
    """A consumer that assigns its partitions itself commits to its group, in which it is no member."""
    partition = TopicPartition("a", 0)
    settings = {"auto_commit_interval_ms": 0}
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g", **settings) as member:
        await until_owned([member], FOUR)
        await member.member.unsubscribe()
        member.is_polling = False
        for offset in (5, 6):  # the second commit waits for the first one
            member.state.positions = {partition: offset}
            member.member.poll_made()
        member.state.positions = {}
        member.member.poll_made()
        await member.member.commit({})
        assert await member.member.committed([partition]) == {partition: OffsetAndMetadata(6)}


@pytest.mark.parametrize("settings", BOTH, ids=name_of)
async def test_member_that_has_lost_its_place_commits_nothing_automatically(
    tmp_path: Path, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "broker.client")
    partition = TopicPartition("a", 0)
    settings = {**settings, "auto_commit_interval_ms": 0}
    async with (
        node_with_topic(tmp_path) as node,
        client_member(node.port, "g", **settings, max_poll_interval_ms=300) as late,
    ):
        await until_owned([late], FOUR)
        late.is_polling = False
        async with client_member(node.port, "g", **settings) as other:
            await until_owned([other], FOUR)
            await other.member.commit({partition: OffsetAndMetadata(9)})
            caplog.clear()
            late.state.positions = {partition: 3}
            late.member.poll_made()
            await late.member.commit({})
            assert [record for record in caplog.messages if "auto commit" in record] == []
            other.is_polling = False


async def test_offsets_are_committed_without_a_subscription(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, client_member(node.port, "g") as member:
        await until_owned([member], FOUR)
        await member.member.unsubscribe()
        await member.member.commit({TopicPartition("a", 0): OffsetAndMetadata(5)})
        assert await member.member.committed([TopicPartition("a", 0)]) == {TopicPartition("a", 0): OffsetAndMetadata(5)}
        async with client_member(node.port, "g") as other:
            await until_owned([other], FOUR)
            with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
                await member.member.commit({TopicPartition("a", 0): OffsetAndMetadata(6)})
