"""Heartbeats of members of share groups: epochs, sessions, assignments, and states that are initialized (KIP-932)."""

from typing import Any

import pytest

from broker.coordinator.group.administration import delete_groups, list_groups
from broker.coordinator.group.classic.requests import JoiningClient
from broker.coordinator.group.config import ShareGroupConfig
from broker.coordinator.group.consumer.heartbeat import HeartbeatClient
from broker.coordinator.group.mixed.classic_requests import join_group
from broker.coordinator.group.mixed.upgrade import consumer_group_heartbeat
from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit, commit_offsets, fetch_offsets
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.group.share.description import describe_share_group
from broker.coordinator.group.share.heartbeat import WAITING_INTERVAL_MS
from broker.coordinator.group.share.offsets import delete_states
from broker.coordinator.group.share.partition_states import RESET_OFFSET
from broker.coordinator.group.share.share_group import ShareGroupState
from broker.coordinator.runtime.decision import Decision
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.offset_fetch import OffsetFetchRequestGroup
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID
from tests.support.consumer_clients import GROUP
from tests.support.share_clients import INTERVAL_MS, SESSION_MS, ShareClient, ShareGroupsShard, settle

JOIN, LEAVE = 0, -1
FENCED, UNKNOWN = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def shard() -> ShareGroupsShard:
    shard = ShareGroupsShard()
    shard.create_topic("a", 2)
    shard.create_topic("b", 1)
    return shard


def stable(shard: ShareGroupsShard, *names: str) -> list[ShareClient]:
    clients = [ShareClient(shard, name, ["a"]) for name in names]
    settle(shard, *clients)
    return clients


# Assignment and states


def test_member_gets_partitions_once_their_states_are_initialized(shard: ShareGroupsShard) -> None:
    client = ShareClient(shard, "m", ["a", "none"])
    joined = client.heartbeat()
    assert (client.names(), joined.member_epoch, joined.heartbeat_interval_ms) == ({}, 1, WAITING_INTERVAL_MS)
    [initialization] = shard.begun
    assert initialization.state_epoch == 1
    assert initialization.start_offsets == {shard.topic_id("a"): {0: RESET_OFFSET, 1: RESET_OFFSET}}
    client.heartbeat()
    assert shard.begun == [initialization], "a request is under way"
    shard.initialize_all()
    response = client.heartbeat()
    assert (client.names(), response.member_epoch, response.heartbeat_interval_ms) == ({"a": {0, 1}}, 2, INTERVAL_MS)
    assert client.heartbeat().assignment is None
    assert client.heartbeat(subscribed_topic_names=["a", "none"]).assignment is not None, "it has sent all"


def test_members_share_partitions(shard: ShareGroupsShard) -> None:
    clients = stable(shard, "m", "n", "o")
    assert sorted(index for client in clients for index in client.names()["a"]) == [0, 0, 1, 1]
    clients[0].heartbeat(member_epoch=LEAVE)
    settle(shard, *clients[1:])
    assert [client.names() for client in clients[1:]] in ([{"a": {0}}, {"a": {1}}], [{"a": {1}}, {"a": {0}}])


def test_new_partitions_begin_with_their_first_record(shard: ShareGroupsShard) -> None:
    [client] = stable(shard, "m")
    shard.grow_topic("a")
    client.heartbeat()
    [initialization] = shard.begun
    assert initialization.start_offsets == {shard.topic_id("a"): {2: 0}}
    settle(shard, client)
    assert client.names() == {"a": {0, 1, 2}}


def test_failed_initialization_begins_again_after_a_pause(shard: ShareGroupsShard) -> None:
    client = ShareClient(shard, "m", ["a"])
    client.heartbeat()
    shard.initialize(shard.begun.pop(), fails=lambda index: index == 1)
    assert client.heartbeat().heartbeat_interval_ms == INTERVAL_MS
    assert (client.names(), shard.begun) == ({"a": {0}}, [])
    shard.pass_ms(INTERVAL_MS)
    client.heartbeat()
    # The topic is known by now, so that no record is missed.
    assert [each.start_offsets for each in shard.begun] == [{shard.topic_id("a"): {1: 0}}]
    settle(shard, client)
    assert client.names() == {"a": {0, 1}}


def test_pause_after_a_failed_initialization_ends_when_the_clock_is_set_back(shard: ShareGroupsShard) -> None:
    client = ShareClient(shard, "m", ["a"])
    client.heartbeat()
    shard.initialize(shard.begun.pop(), fails=lambda index: index == 1)
    shard.pass_ms(-1_800_000)
    settle(shard, client)
    assert client.names() == {"a": {0, 1}}


def test_new_coordinator_repeats_unfinished_initialization(shard: ShareGroupsShard) -> None:
    """Kafka waits for `group.share.initialize.retry.interval.ms`, and then ignores the offset reset of the group."""
    client = ShareClient(shard, "m", ["a"])
    client.heartbeat()
    shard.load()
    client.heartbeat()
    assert [each.start_offsets for each in shard.begun] == [{shard.topic_id("a"): {0: RESET_OFFSET, 1: RESET_OFFSET}}]
    shard.initialize_all()
    client.heartbeat()
    assert client.names() == {"a": {0, 1}}


def test_lost_response_of_the_share_coordinator_is_asked_for_again(shard: ShareGroupsShard) -> None:
    client = ShareClient(shard, "m", ["a"])
    client.heartbeat()
    [first] = shard.begun
    for _ in range(6):
        shard.pass_ms(INTERVAL_MS)
        client.heartbeat()
    assert len(shard.begun) == 2
    shard.initialize_all()
    # A late execution of the first request must not reset states that the group consumes already.
    shard.initialize(first)
    assert {kept.times for kept in shard.kept.values()} == {1}


def test_changed_subscription_counts_at_once(shard: ShareGroupsShard) -> None:
    one, other = stable(shard, "m", "n")
    one.heartbeat(subscribed_topic_names=["b"])
    assert one.names() == {}
    settle(shard, one, other)
    assert (one.names(), other.names()) == ({"b": {0}}, {"a": {0, 1}})


def test_deleted_topic_leaves_the_group(shard: ShareGroupsShard) -> None:
    client = ShareClient(shard, "m", ["a", "b"])
    settle(shard, client)
    gone = shard.topic_id("a")
    shard.delete_topic("a")
    shard.pass_ms(0)
    settle(shard, client)
    assert client.names() == {"b": {0}}
    assert gone not in shard.share_group.states.topic_ids
    # The topic that gets its name is another one.
    shard.create_topic("a", 1)
    settle(shard, client)
    assert client.names() == {"a": {0}, "b": {0}}
    assert shard.kept[shard.topic_id("a"), 0].start_offset == RESET_OFFSET


def test_assignments_are_an_interval_apart(shard: ShareGroupsShard) -> None:
    """KIP-1263."""
    shard = ShareGroupsShard(ShareGroupConfig(assignment_interval_ms=1_000))
    shard.create_topic("a", 2)
    one, other = ShareClient(shard, "m", ["a"]), ShareClient(shard, "n", ["a"])
    settle(shard, one)
    assert one.names() == {"a": {0, 1}}
    shard.pass_ms(1)
    shard.share_group.assigned_at_ms = shard.now_ms  # as if the assignment was made just now
    assert (other.heartbeat().heartbeat_interval_ms, other.names()) == (WAITING_INTERVAL_MS, {})
    shard.pass_ms(1_000)
    other.heartbeat()
    assert sorted([*one.names()["a"], *other.names()["a"]]) == [0, 1, *other.names()["a"]]
    assert len(other.names()["a"]) == 1


def test_assignment_does_not_wait_for_the_clock_of_an_earlier_coordinator(shard: ShareGroupsShard) -> None:
    """The record of the last assignment has the time of a clock that was half an hour ahead."""
    shard = ShareGroupsShard(ShareGroupConfig(assignment_interval_ms=1_000))
    shard.create_topic("a", 2)
    one, other = ShareClient(shard, "m", ["a"]), ShareClient(shard, "n", ["a"])
    settle(shard, one)
    shard.share_group.assigned_at_ms = shard.now_ms + 1_800_000
    settle(shard, one, other)
    assert len(other.names()["a"]) == 1


# Epochs and sessions


def test_epochs_fence_members(shard: ShareGroupsShard) -> None:
    [client] = stable(shard, "m")
    client.heartbeat(subscribed_topic_names=["b"])
    client.heartbeat(subscribed_topic_names=["a"])
    epoch = client.epoch
    assert client.code(member_epoch=epoch + 1) is FENCED
    assert client.code(member_epoch=epoch - 2) is FENCED
    assert client.code(member_epoch=epoch - 1) is ErrorCode.NONE, "the response with its epoch may have been lost"
    assert client.code(member_epoch=JOIN, subscribed_topic_names=["a"]) is ErrorCode.NONE
    assert client.epoch == epoch, "a member that joins again with the same subscription changes nothing"


def test_unknown_groups_and_members_are_refused(shard: ShareGroupsShard) -> None:
    stranger = ShareClient(shard, "s", ["a"])
    for epoch in (LEAVE, 3):
        assert stranger.code(member_epoch=epoch, subscribed_topic_names=None) is ErrorCode.GROUP_ID_NOT_FOUND
    stable(shard, "m")
    for epoch in (LEAVE, 3):
        assert stranger.code(member_epoch=epoch, subscribed_topic_names=None) is UNKNOWN


def test_full_group_refuses_new_members(shard: ShareGroupsShard) -> None:
    shard = ShareGroupsShard(ShareGroupConfig(members_max=2))
    clients = stable(shard, "m", "n")
    assert ShareClient(shard, "o", ["a"]).code() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert clients[0].code() is ErrorCode.NONE


def test_silent_member_is_removed_also_by_a_new_coordinator(shard: ShareGroupsShard) -> None:
    one, other = stable(shard, "m", "n")
    shard.pass_ms(SESSION_MS - 2 * INTERVAL_MS)
    one.heartbeat()
    shard.pass_ms(INTERVAL_MS)
    assert other.code() is UNKNOWN
    shard.load()
    shard.pass_ms(SESSION_MS)
    assert (shard.share_group.state, shard.share_group.is_empty) == (ShareGroupState.EMPTY, True)


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": " "},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None},
        {"member_epoch": -2},
    ],
)
def test_invalid_requests_are_refused(shard: ShareGroupsShard, fields: dict[str, object]) -> None:
    assert ShareClient(shard, "m", ["a"]).code(**fields) is ErrorCode.INVALID_REQUEST


# Groups of other types, and administrators


def test_other_protocols_are_refused_by_a_share_group_even_if_it_is_empty(shard: ShareGroupsShard) -> None:
    [client] = stable(shard, "m")
    client.heartbeat(member_epoch=LEAVE)
    assert shard.share_group.is_empty
    for decide, code in (
        (_consumer_heartbeat, ErrorCode.GROUP_ID_NOT_FOUND),
        (_commit, ErrorCode.GROUP_ID_NOT_FOUND),
        (_classic_join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        with pytest.raises(KafkaError) as caught:
            shard.write(decide)
        assert caught.value.code is code
    fetched = fetch_offsets(shard.state, OffsetFetchRequestGroup(group_id=GROUP, topics=[]), require_stable=False)
    assert fetched.error_code == ErrorCode.NONE


def _consumer_heartbeat(state: GroupCoordinatorShard, now_ms: int) -> Decision[Any]:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="c", rebalance_timeout_ms=1_000, topic_partitions=[], subscribed_topic_names=["a"]
    )
    caller = HeartbeatClient(client_id="c", client_host="/h", new_member_id="")
    return consumer_group_heartbeat(state, request, caller, now_ms)


def _classic_join(state: GroupCoordinatorShard, now_ms: int) -> Decision[Any]:
    joiner = JoiningClient(
        client_id="c",
        client_host="/h",
        new_member_id="c-1",
        needs_member_id=False,
        can_skip_assignment=True,
        topic_filter=None,
    )
    request = JoinGroupRequest(
        group_id=GROUP, protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range")]
    )
    return join_group(state, request, joiner, now_ms)


def _commit(state: GroupCoordinatorShard, now_ms: int) -> Decision[Any]:
    offset = OffsetToCommit("a", ZERO_UUID, 0, 5, -1, None)
    return commit_offsets(state, Committer(GROUP, "", None, -1, 9), [offset], -1, now_ms)


def test_share_member_cannot_join_a_group_with_committed_offsets(shard: ShareGroupsShard) -> None:
    shard.write(_commit)
    assert ShareClient(shard, "m", ["a"]).code() is ErrorCode.GROUP_ID_NOT_FOUND


def test_group_is_listed_and_described(shard: ShareGroupsShard) -> None:
    [client] = stable(shard, "m")
    [listed] = list_groups(shard.state, (), ("share",))
    assert (listed.group_state, listed.group_type, listed.protocol_type) == ("Stable", "share", "share")
    assert list_groups(shard.state, (), ("consumer", "classic")) == []
    described = describe_share_group(shard.state, GROUP)
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    assert described.group_epoch == described.assignment_epoch == client.epoch
    [member] = described.members
    [topic] = member.assignment.topic_partitions
    assert (member.member_id, member.subscribed_topic_names) == ("m", ["a"])
    assert (topic.topic_name, topic.partitions) == ("a", [0, 1])
    with pytest.raises(KafkaError):
        describe_share_group(shard.state, "other")


def test_group_with_states_is_not_deleted(shard: ShareGroupsShard) -> None:
    """The states are deleted before the group. A member that joined meanwhile has made new ones."""
    [client] = stable(shard, "m")
    assert shard.write(lambda state, now_ms: delete_groups(state, now_ms, [GROUP])) == {
        GROUP: ErrorCode.NON_EMPTY_GROUP
    }
    client.heartbeat(member_epoch=LEAVE)
    assert shard.write(lambda state, now_ms: delete_groups(state, now_ms, [GROUP])) == {
        GROUP: ErrorCode.NON_EMPTY_GROUP
    }
    shard.delete(shard.write(lambda state, now_ms: delete_states(state, [GROUP]))[GROUP])
    assert shard.kept == {}
    assert shard.write(lambda state, now_ms: delete_groups(state, now_ms, [GROUP])) == {GROUP: ErrorCode.NONE}
    assert GROUP not in shard.state.groups
    shard.load()
    assert GROUP not in shard.state.groups
