"""Consumer groups with members of both protocols (KIP-848)."""

from typing import Any

import attrs
import pytest

from broker.coordinator.group.administration import describe_consumer_group, list_groups
from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.consumer.member import MemberState
from broker.coordinator.group.consumer.shard import pending_join_key
from broker.wire.api.consumer_group_describe import CLASSIC_MEMBER, CONSUMER_MEMBER
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.classic_consumers import SESSION_MS, ClassicConsumer
from tests.support.consumer_clients import GROUP, ConsumerClient, ConsumerGroups, refused
from tests.support.mixed_groups import classic_group, mixed, owned, settle, shard_with, stable_classic_members

NONE, AGAIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def shard() -> ConsumerGroups:
    return shard_with()


def test_a_classic_member_joins_a_consumer_group(shard: ConsumerGroups) -> None:
    member, client = mixed(shard)
    assert (len(owned([member])), len(owned([client]))) == (2, 2)
    described = describe_consumer_group(shard.state, GROUP)
    assert [each.member_type for each in described.members] == [CONSUMER_MEMBER, CLASSIC_MEMBER]
    listed = list_groups(shard.state, [], [])
    assert [(each.group_type, each.group_state, each.protocol_type) for each in listed] == [
        ("consumer", "Stable", "consumer")
    ]


def test_removed_classic_member_is_told_that_it_is_unknown(shard: ConsumerGroups) -> None:
    (member,) = stable_classic_members(shard, 1, is_cooperative=True)
    shard.pass_ms(45_000)
    client = ConsumerClient(shard, "client", ["a"])
    client.heartbeat()
    assert client.names() == member.names() == {"a": {0, 1, 2, 3}}
    member.join()
    assert member.act() is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.names() == {}
    settle(shard, [member, client])


def test_classic_member_is_told_its_id_first_and_its_protocol(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    member = ClassicConsumer(shard, ["a"], name="old")
    answer = member.join().outcome
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "old-1")
    assert "old-1" not in shard.group.members
    member.act()
    answer = member.joining.outcome  # type: ignore[union-attr]
    assert (answer.protocol_type, answer.protocol_name, answer.generation_id) == ("consumer", "range", 2)
    assert (answer.leader, answer.members) == ("", [])


def test_pending_member_id_can_join_until_it_expires(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "client", ["a"])
    client.heartbeat()
    early, late = (ClassicConsumer(shard, ["a"], name=name) for name in ("early", "late"))
    early.join()
    early.act()
    assert early.member_id in shard.group.members
    assert pending_join_key(GROUP, early.member_id) not in shard.timers.due
    late.join()
    shard.pass_ms(SESSION_MS)
    client.heartbeat()
    late.act()
    assert late.act() is ErrorCode.UNKNOWN_MEMBER_ID


def test_consumer_that_took_a_pending_member_id_keeps_its_state_when_the_classic_client_joins(
    shard: ConsumerGroups,
) -> None:
    ConsumerClient(shard, "other", ["a"]).heartbeat()
    classic = ClassicConsumer(shard, ["a"], name="shared")
    member_id = classic.join().outcome.member_id
    consumer = ConsumerClient(shard, member_id, ["a"])
    consumer.heartbeat()
    classic.act()
    member = shard.group.members[member_id]
    assert (member.is_classic, member.member_epoch, shard.group.epoch) == (True, consumer.epoch, consumer.epoch)


def test_pending_member_id_of_a_classic_group_survives_the_upgrade(shard: ConsumerGroups) -> None:
    stable_classic_members(shard, 1)
    newcomer = ClassicConsumer(shard, ["a"], name="newcomer")
    newcomer.join()
    ConsumerClient(shard, "client", ["a"]).heartbeat()
    newcomer.act()
    assert newcomer.act() is None
    assert newcomer.member_id in shard.group.members


def test_requests_that_do_not_fit_are_refused(shard: ConsumerGroups) -> None:
    member, client = mixed(shard)
    assert member.heartbeat(member.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert member.heartbeat(member.generation + 1) == ErrorCode.ILLEGAL_GENERATION
    stranger = ClassicConsumer(shard, ["a"])
    stranger.member_id, stranger.generation = client.member_id, client.epoch
    assert stranger.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID, "it does not speak the classic protocol"
    stranger.instance_id = "i"
    assert stranger.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        assert member.sync({}, **fields).outcome.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync({}, generation_id=99).outcome.code == ErrorCode.ILLEGAL_GENERATION
    assert member.sync({}, protocol_name="range").outcome.error_code == NONE
    for newcomer in (
        ClassicConsumer(shard, ["a"], is_cooperative=True),
        ClassicConsumer(shard, ["a"]),
    ):
        fields = {} if newcomer.is_cooperative else {"protocol_type": "connect"}
        assert newcomer.join(**fields).outcome.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@attrs.frozen
class GroupOfAnotherKind:
    """A group of a type that neither protocol knows, such as a share group."""

    is_empty: bool = False


def test_group_of_another_kind_refuses_members_of_both_protocols(shard: ConsumerGroups) -> None:
    groups: dict[str, Any] = shard.state.groups
    groups[GROUP] = GroupOfAnotherKind()
    classic = ClassicConsumer(shard, ["a"])
    assert classic.join().outcome.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    client = ConsumerClient(shard, "client", ["a"])
    assert refused(lambda: client.send(client.request())) == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups == {GROUP: GroupOfAnotherKind()}


def test_full_group_refuses_further_members() -> None:
    shard = shard_with(members_max=2)
    mixed(shard)
    assert ClassicConsumer(shard, ["a"]).join().outcome.code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_classic_member_is_told_to_rejoin_until_it_has_revoked(shard: ConsumerGroups) -> None:
    member = ClassicConsumer(shard, ["a"], is_cooperative=True, name="old")
    watcher = ConsumerClient(shard, "watcher", [])
    watcher.heartbeat()
    settle(shard, [member, watcher])
    generation = member.generation
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    assert member.heartbeat() == AGAIN
    member.act()
    member.act()  # it has joined
    state = shard.group.members[member.member_id]
    assert (state.state, state.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, generation)
    assert member.heartbeat() == AGAIN
    member.act()  # it is assigned less, gives up the rest, and joins
    assert shard.group.members[member.member_id].state is MemberState.STABLE
    assert (len(member.owned["a"]), member.generation) == (2, generation)
    client.heartbeat()
    assert client.names() == {"a": {0, 1, 2, 3} - member.names()["a"]}


def test_classic_member_waits_for_unreleased_partitions(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    member = ClassicConsumer(shard, ["a"], name="old")
    for _ in range(4):
        member.act()
    assert shard.group.members[member.member_id].state is MemberState.UNRELEASED_PARTITIONS
    assert member.heartbeat() == NONE
    client.heartbeat()
    assert member.heartbeat() == NONE, "they are not given up yet"
    client.heartbeat()
    assert member.heartbeat() == AGAIN
    settle(shard, [client, member])


def test_classic_member_waits_until_all_of_its_unreleased_partitions_are_released(shard: ConsumerGroups) -> None:
    shard.create_topic("b", 6)
    clients = [ConsumerClient(shard, name, ["b"]) for name in ("one", "two")]
    for client in clients * 4:
        client.heartbeat()
    member = ClassicConsumer(shard, ["b"], name="old")
    for _ in range(4):
        member.act()
    for client in clients:
        assert member.heartbeat() == NONE, "two of six partitions, one of each consumer"
        for _ in range(2):
            client.heartbeat()
    assert member.heartbeat() == AGAIN
    for _ in range(4):
        member.act()
    assert len(member.owned["b"]) == 2


@pytest.mark.parametrize("request_kind", ["session", "join", "sync"])
def test_classic_member_is_removed_after_its_timeouts(shard: ConsumerGroups, request_kind: str) -> None:
    member, client = mixed(shard)
    other = ConsumerClient(shard, "other", ["a"])
    if request_kind == "sync":
        member.join()
    elif request_kind == "join":
        other.heartbeat()
        assert member.heartbeat() == AGAIN
    for elapsed_ms in range(0, 30_000, 5_000):
        client.heartbeat()
        if request_kind != "session":
            assert member.heartbeat(shard.group.members[member.member_id].member_epoch) in (NONE, AGAIN), elapsed_ms
        shard.pass_ms(4_999)
        if member.member_id not in shard.group.members:
            break
    else:
        shard.pass_ms(30_000)
    assert member.member_id not in shard.group.members
    assert elapsed_ms == (25_000 if request_kind == "session" else 20_000)


def test_classic_member_leaves_a_consumer_group(shard: ConsumerGroups) -> None:
    member, client = mixed(shard)
    assert member.leave() == [NONE]
    assert member.leave() == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(shard.group.members) == [client.member_id]
    client.heartbeat()
    assert client.names() == {"a": {0, 1, 2, 3}}


def test_administrator_removes_members_of_both_protocols(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "new", ["a"], instance_id="i")
    client.heartbeat()
    one = ClassicConsumer(shard, ["a"], name="old")
    one.instance_id, one.member_id = "i", ""
    assert one.leave() == [NONE]
    assert shard.group.is_empty


# Static members


def test_static_members_change_the_protocol_one_by_one_and_keep_their_partitions(shard: ConsumerGroups) -> None:
    old = [ClassicConsumer(shard, ["a"], instance_id=name, name=name) for name in "xy"]
    settle(shard, old)
    had = [each.names() for each in old]
    client = ConsumerClient(shard, "new", ["a"], instance_id="x")
    client.heartbeat()
    assert client.names() == had[0], "its former self is gone, and had it"
    assert old[0].heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    settle(shard, [client, old[1]])
    assert client.names() == had[0]
    back = ClassicConsumer(shard, ["a"], instance_id="x", name="back")
    back.act()
    answer = back.joining.outcome  # type: ignore[union-attr]
    assert (answer.error_code, answer.generation_id) == (NONE, shard_generation(shard))
    assert classic_group(shard).state is GroupState.STABLE, "nothing is to be changed by a rebalance"
    settle(shard, [back, old[1]])
    assert [back.names(), old[1].names()] == had
    shard.load()
    assert classic_group(shard).static_members["x"] == back.member_id


def shard_generation(shard: ConsumerGroups) -> int:
    return classic_group(shard).generation


def test_static_member_back_with_another_subscription_causes_a_rebalance(shard: ConsumerGroups) -> None:
    shard.create_topic("b", 1)
    old = [ClassicConsumer(shard, ["a"], instance_id=name, name=name) for name in "xy"]
    settle(shard, old)
    client = ConsumerClient(shard, "new", ["a"], instance_id="x")
    client.heartbeat()
    back = ClassicConsumer(shard, ["a", "b"], instance_id="x", name="back")
    back.act()
    assert classic_group(shard).state is GroupState.PREPARING_REBALANCE
    settle(shard, [back, old[1]])
    assert back.names()["b"] == {0}


def test_last_static_consumer_that_joins_with_its_id_and_the_classic_protocol_downgrades_the_group_kip_848(
    shard: ConsumerGroups,
) -> None:
    client = ConsumerClient(shard, "same", ["a"], instance_id="x")
    client.heartbeat()
    classic = ClassicConsumer(shard, ["a"], instance_id="x")
    classic.member_id = client.member_id
    classic.act()
    assert list(classic_group(shard).members) == ["same"]
    settle(shard, [classic])
    assert classic.names() == {"a": {0, 1, 2, 3}}
    assert client.heartbeat() is None, "the consumer has to join again"
    shard.load()
    assert classic_group(shard).static_members == {"x": "same"}


def test_a_static_member_of_the_classic_protocol_is_replaced_in_a_consumer_group(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    member = ClassicConsumer(shard, ["a"], instance_id="x", name="x")
    settle(shard, [client, member])
    had, epoch = member.names(), shard.group.epoch
    back = ClassicConsumer(shard, ["a"], instance_id="x", name="back")
    settle(shard, [client, back])
    assert (back.names(), shard.group.epoch) == (had, epoch)
    assert member.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert member.leave() == [ErrorCode.FENCED_INSTANCE_ID]


def test_static_member_is_fenced_after_it_was_replaced_in_the_other_protocol(shard: ConsumerGroups) -> None:
    """Otherwise the two incarnations would replace each other repeatedly."""
    client = ConsumerClient(shard, "new", ["a"], instance_id="x")
    client.heartbeat()
    classic = ClassicConsumer(shard, ["a"], instance_id="x", name="x")
    classic.act()
    assert isinstance(shard.state.groups[GROUP], ClassicGroup)
    assert refused(client.heartbeat) is ErrorCode.FENCED_INSTANCE_ID
    settle(shard, [classic])
    assert classic.names() == {"a": {0, 1, 2, 3}}


def test_classic_member_commits_at_its_member_epoch(shard: ConsumerGroups) -> None:
    member, _ = mixed(shard)
    validate = shard.group.validate_offset_commit
    validate(member.member_id, None, member.generation, api_version=8, is_transactional=False)
    with pytest.raises(KafkaError) as refused:
        validate(member.member_id, None, member.generation + 1, api_version=8, is_transactional=False)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
