"""Heartbeats and commits of members of consumer groups: epochs, sessions and static members (KIP-848)."""

from typing import Any

import attrs
import pytest

from broker.coordinator.group.administration import describe_consumer_group
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from broker.coordinator.group.consumer.heartbeat import WAITING_INTERVAL_MS
from broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from broker.coordinator.group.consumer.records import assignment_record
from broker.coordinator.group.partition_sets import PartitionSets, as_message
from broker.coordinator.group.record_formats import ConsumerGroupMemberMetadataValue
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse, TopicPartitions
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.consumer_clients import GROUP, REBALANCE_MS, ConsumerClient, ConsumerGroups, settle

FENCED_EPOCH, UNKNOWN = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
INTERVAL_MS, SESSION_MS = 4_000, 45_000


@pytest.fixture
def shard() -> ConsumerGroups:
    shard = ConsumerGroups()
    shard.create_topic("a", 4)
    return shard


def stable(shard: ConsumerGroups, *names: str, instances: bool = False) -> list[ConsumerClient]:
    clients = [ConsumerClient(shard, name, ["a"], instance_id=f"i-{name}" if instances else None) for name in names]
    settle(clients)
    return clients


def said(client: ConsumerClient, epoch: int, owned: PartitionSets | None = None, **fields: Any) -> Any:
    """Send a heartbeat of this member with that epoch. Returns the response or the error."""
    request = client.request()
    request.member_epoch = epoch
    request.rebalance_timeout_ms = -1
    request.subscribed_topic_names = request.subscribed_topic_regex = None
    request.topic_partitions = None if owned is None else as_message(owned, TopicPartitions)
    for name, value in fields.items():
        setattr(request, name, value)
    try:
        return client.send(request)
    except KafkaError as error:
        return error.code


def joined(client: ConsumerClient) -> Any:
    try:
        return client.send(client.request())
    except KafkaError as error:
        return error.code


# Records


def test_topics_of_a_group_are_those_that_its_members_name_now() -> None:
    group = ConsumerGroup(GROUP)
    for topic in ("a", "b"):
        group.put(ConsumerMember(member_id="one", topic_names=(topic,)))
        assert group.topic_names == {topic}
    group.remove("one")
    assert group.topic_names == set()


def test_empty_regular_expression_in_a_record_is_none() -> None:
    member = ConsumerMember(member_id="one", topic_regex="a.*")
    assert member.with_metadata(ConsumerGroupMemberMetadataValue(subscribed_topic_regex="")).topic_regex is None


# Identity


def test_unknown_members_are_refused(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "m", ["a"])
    assert said(client, 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert said(client, -1) is ErrorCode.GROUP_ID_NOT_FOUND
    stable(shard, "other")
    assert said(client, 1) is UNKNOWN
    assert said(client, -1) is UNKNOWN
    assert said(client, 1, instance_id="i") is UNKNOWN
    assert said(client, -2, instance_id="i") is UNKNOWN


def test_epoch_beyond_the_members_is_fenced(shard: ConsumerGroups) -> None:
    client = stable(shard, "m")[0]
    assert said(client, client.epoch + 1) is FENCED_EPOCH
    assert isinstance(said(client, client.epoch), ConsumerGroupHeartbeatResponse)


def test_previous_epoch_is_accepted_if_only_assigned_partitions_are_owned(shard: ConsumerGroups) -> None:
    one, two = stable(shard, "one", "two")
    former, had = one.epoch, one.owned
    two.subscribe([])
    two.heartbeat()
    one.heartbeat(is_lost=True)  # the response with the new epoch is lost
    member = shard.group.members["one"]
    assert (member.member_epoch, member.previous_member_epoch) == (former + 1, former)
    assert said(one, former) is FENCED_EPOCH, "it has to say what it has"
    more = {topic_id: partitions | {99} for topic_id, partitions in had.items()}
    assert said(one, former, more) is FENCED_EPOCH
    assert said(one, former - 1, had) is FENCED_EPOCH
    again = said(one, former, had)
    assert again.member_epoch == former + 1


def test_member_that_rejoins_with_its_id_keeps_its_assignment(shard: ConsumerGroups) -> None:
    client = stable(shard, "m")[0]
    epoch = client.epoch
    had = client.owned
    client.restart()
    answer = joined(client)
    assert (answer.member_epoch, shard.group.epoch) == (epoch, epoch)
    assert [set(topic.partitions) for topic in answer.assignment.topic_partitions] == [set(*had.values())]


@pytest.mark.parametrize("state", MemberState)
def test_fenced_member_rejoins_before_its_session_expires(shard: ConsumerGroups, state: MemberState) -> None:
    one, two = stable(shard, "one", "two")
    # One member gets all partitions of the other one, and returns half of them.
    taking = two if state is MemberState.UNRELEASED_PARTITIONS else one
    giving = one if taking is two else two
    giving.subscribe([])
    settle([giving, taking])
    giving.subscribe(["a"])
    giving.heartbeat()
    if state is MemberState.STABLE:
        settle([one, two])
    elif state is MemberState.UNREVOKED_PARTITIONS:
        one.heartbeat()
    elif state is MemberState.UNKNOWN:
        shard.append(assignment_record(GROUP, attrs.evolve(shard.group.members["one"], state=state)))
    member = shard.group.members["one"]
    assert (member.state, member.member_epoch > 1) == (state, True)
    assert said(one, 99) is FENCED_EPOCH
    one.restart()
    settle([one, two])
    assert (len(one.names()["a"]), len(two.names()["a"])) == (2, 2)


def test_offset_commit_needs_a_member_and_no_later_epoch_than_its_own(shard: ConsumerGroups) -> None:
    client = stable(shard, "m")[0]

    def refusal(member_id: str, epoch: int, version: int = 9) -> ErrorCode | None:
        try:
            shard.group.validate_offset_commit(member_id, None, epoch, api_version=version, is_transactional=False)
        except KafkaError as error:
            return error.code
        return None

    assert refusal("m", client.epoch) is None
    assert refusal("m", client.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal("m", client.epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert refusal("other", client.epoch) is refusal("", -1) is UNKNOWN
    client.leave()
    assert refusal("", -1) is None, "anybody may, where there are no members"
    assert refusal("m", 1) is UNKNOWN


def test_offset_fetch_needs_the_current_member_epoch(shard: ConsumerGroups) -> None:
    client = stable(shard, "m")[0]
    shard.group.validate_offset_fetch(None, -1)
    shard.group.validate_offset_fetch("m", client.epoch)
    for member_id, epoch, code in (("m", 0, ErrorCode.STALE_MEMBER_EPOCH), ("x", 1, UNKNOWN), (None, 1, UNKNOWN)):
        with pytest.raises(KafkaError) as refused:
            shard.group.validate_offset_fetch(member_id, epoch)
        assert refused.value.code is code


# Sessions


def test_member_is_removed_when_its_session_expires(shard: ConsumerGroups) -> None:
    one, two = stable(shard, "one", "two")
    for _ in range(SESSION_MS // INTERVAL_MS + 1):
        one.heartbeat()
        shard.pass_ms(INTERVAL_MS)
    assert list(shard.group.members) == ["one"]
    assert said(two, two.epoch) is UNKNOWN
    settle([one])
    assert one.names() == {"a": {0, 1, 2, 3}}


def test_member_that_does_not_revoke_in_time_is_removed(shard: ConsumerGroups) -> None:
    one = stable(shard, "one")[0]
    ConsumerClient(shard, "two", ["a"]).heartbeat()
    for _ in range(REBALANCE_MS // INTERVAL_MS):
        said(one, one.epoch)  # a heartbeat that does not list its partitions
        assert shard.group.members["one"].state is MemberState.UNREVOKED_PARTITIONS
        shard.pass_ms(INTERVAL_MS)
    assert list(shard.group.members) == ["two"]


def test_rebalance_timeout_starts_again_when_another_coordinator_loads_the_group(shard: ConsumerGroups) -> None:
    one = stable(shard, "one")[0]
    ConsumerClient(shard, "two", ["a"]).heartbeat()
    said(one, one.epoch)
    shard.pass_ms(INTERVAL_MS)
    shard.load()
    shard.pass_ms(REBALANCE_MS - 1)
    assert shard.group.members["one"].state is MemberState.UNREVOKED_PARTITIONS
    shard.pass_ms(1)
    assert list(shard.group.members) == ["two"]


def test_rebalance_timeout_starts_again_for_each_further_revocation(shard: ConsumerGroups) -> None:
    one = stable(shard, "one")[0]
    two, *others = (ConsumerClient(shard, name, ["a"]) for name in ("two", "three", "four"))
    two.heartbeat()
    one.heartbeat()  # has to revoke two partitions
    epoch = one.epoch
    shard.pass_ms(REBALANCE_MS - 1_000)
    for each in others:
        each.heartbeat()
    one.heartbeat()  # has revoked them, and has to revoke a third one
    member = shard.group.members["one"]
    assert (member.state, one.epoch) == (MemberState.UNREVOKED_PARTITIONS, epoch)
    shard.pass_ms(REBALANCE_MS - 1_000)
    assert "one" in shard.group.members, "the first timeout no longer counts"
    said(one, one.epoch)
    shard.pass_ms(1_000)
    assert "one" not in shard.group.members, "a heartbeat without news does not extend the timeout"


def test_rebalance_timeout_starts_again_if_a_new_subscription_lacks_topics(shard: ConsumerGroups) -> None:
    shard.create_topic("b", 1)
    one = ConsumerClient(shard, "one", ["a", "b"])
    settle([one])
    ConsumerClient(shard, "two", ["a"]).heartbeat()
    said(one, one.epoch)
    shard.pass_ms(REBALANCE_MS - 1_000)
    response = said(one, one.epoch, subscribed_topic_names=["b"])
    assert [each.topic_id for each in response.assignment.topic_partitions] == [shard.topic_id("b")]
    assert response.member_epoch == one.epoch
    shard.pass_ms(REBALANCE_MS - 1_000)
    assert shard.group.members["one"].state is MemberState.UNREVOKED_PARTITIONS
    shard.pass_ms(1_000)
    assert "one" not in shard.group.members


def test_described_assignment_has_the_partitions_that_a_member_has_yet_to_revoke(shard: ConsumerGroups) -> None:
    one = stable(shard, "one")[0]
    ConsumerClient(shard, "two", ["a"]).heartbeat()
    said(one, one.epoch)
    assert shard.group.members["one"].state is MemberState.UNREVOKED_PARTITIONS
    described = {each.member_id: each.assignment for each in describe_consumer_group(shard.state, GROUP).members}
    owned = [each.partitions for each in described["one"].topic_partitions]
    assert (owned, described["two"].topic_partitions) == ([[0, 1, 2, 3]], [])


def test_member_with_unreleased_partitions_has_a_short_heartbeat_interval(shard: ConsumerGroups) -> None:
    one = stable(shard, "one")[0]
    two = ConsumerClient(shard, "two", ["a"])
    waiting = two.heartbeat()
    assert waiting is not None
    assert waiting.heartbeat_interval_ms == WAITING_INTERVAL_MS
    shard.pass_ms(INTERVAL_MS)
    waiting = two.heartbeat()
    assert waiting is not None
    assert waiting.heartbeat_interval_ms == WAITING_INTERVAL_MS
    settle([one, two])
    for client in (one, two):
        answer = client.heartbeat()
        assert answer is not None
        assert answer.heartbeat_interval_ms == INTERVAL_MS


@pytest.mark.parametrize("change", ["come", "leave", "want more"])
def test_heartbeat_interval_is_short_after_a_new_epoch(shard: ConsumerGroups, change: str) -> None:
    shard.create_topic("b", 1)
    one, two = stable(shard, "one", "two")
    shard.pass_ms(INTERVAL_MS)
    assert said(one, one.epoch).heartbeat_interval_ms == INTERVAL_MS
    if change == "come":
        ConsumerClient(shard, "new", ["a"]).heartbeat()
    elif change == "leave":
        two.leave()
    else:
        two.subscribe(["a", "b"])
        two.heartbeat()
    one.heartbeat()
    assert said(one, one.epoch).heartbeat_interval_ms == WAITING_INTERVAL_MS
    shard.pass_ms(INTERVAL_MS)
    assert said(one, one.epoch).heartbeat_interval_ms == INTERVAL_MS


# Static members (KIP-345)


def test_static_member_keeps_its_partitions_while_it_is_away(shard: ConsumerGroups) -> None:
    one, two = stable(shard, "one", "two", instances=True)
    had, epoch = two.owned, shard.group.epoch
    left = two.leave(-2)
    assert (left.member_id, left.member_epoch) == ("two", -2)
    one.heartbeat()
    assert shard.group.epoch == epoch
    back = ConsumerClient(shard, "back", ["a"], instance_id="i-two")
    back.heartbeat()
    assert (back.owned, back.epoch, shard.group.epoch) == (had, epoch, epoch)
    assert shard.group.state is ConsumerGroupState.STABLE
    assert said(two, epoch) is ErrorCode.FENCED_INSTANCE_ID
    assert said(two, -1) is ErrorCode.FENCED_INSTANCE_ID
    assert said(two, -2) is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_that_stays_away_is_removed(shard: ConsumerGroups) -> None:
    one, two = stable(shard, "one", "two", instances=True)
    two.leave(-2)
    for _ in range(SESSION_MS // INTERVAL_MS + 1):
        one.heartbeat()
        shard.pass_ms(INTERVAL_MS)
    assert list(shard.group.members) == ["one"]
    settle([one])
    assert one.names() == {"a": {0, 1, 2, 3}}


def test_instance_id_in_use_is_refused(shard: ConsumerGroups) -> None:
    one = stable(shard, "one", instances=True)[0]
    other = ConsumerClient(shard, "other", ["a"], instance_id="i-one")
    assert joined(other) is ErrorCode.UNRELEASED_INSTANCE_ID
    one.leave(-1)
    assert joined(other).member_id == "other"
    assert said(one, one.epoch) is ErrorCode.FENCED_INSTANCE_ID


def test_instance_id_of_a_dead_member_is_free_when_its_session_expires(shard: ConsumerGroups) -> None:
    stable(shard, "one", instances=True)
    other = ConsumerClient(shard, "other", ["a"], instance_id="i-one")
    assert joined(other) is ErrorCode.UNRELEASED_INSTANCE_ID
    shard.pass_ms(SESSION_MS)
    settle([other])
    assert other.names() == {"a": {0, 1, 2, 3}}


def test_restarted_static_member_with_another_subscription_increases_the_epoch(shard: ConsumerGroups) -> None:
    shard.create_topic("b", 1)
    one, two = stable(shard, "one", "two", instances=True)
    epoch = shard.group.epoch
    two.leave(-2)
    back = ConsumerClient(shard, "back", ["a", "b"], instance_id="i-two")
    back.heartbeat()
    assert shard.group.epoch == epoch + 1
    settle([one, back])
    assert back.names()["b"] == {0}


def test_next_coordinator_knows_members_that_are_away(shard: ConsumerGroups) -> None:
    stable(shard, "one", instances=True)[0].leave(-2)
    shard.load()
    member = shard.group.static_member("i-one")
    assert member is not None
    assert member.is_away
    shard.pass_ms(SESSION_MS)
    assert shard.group.is_empty
