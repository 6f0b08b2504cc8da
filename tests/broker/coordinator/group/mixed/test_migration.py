"""Groups that change from one protocol to the other while their members consume (KIP-848)."""

import pytest

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.classic_consumers import ClassicConsumer
from tests.support.consumer_clients import GROUP, ConsumerClient, ConsumerGroups
from tests.support.mixed_groups import (
    Anyone,
    assert_no_shared_partitions,
    classic_group,
    mixed,
    owned,
    settle,
    shard_with,
    stable_classic_members,
)

NONE, AGAIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def shard() -> ConsumerGroups:
    return shard_with()


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_a_classic_group_becomes_a_consumer_group_and_a_classic_one_again(
    shard: ConsumerGroups, is_cooperative: bool
) -> None:
    members: list[Anyone] = [*stable_classic_members(shard, 2, is_cooperative=is_cooperative)]
    generation = classic_group(shard).generation
    newcomer = ConsumerClient(shard, "new", ["a"])
    newcomer.heartbeat()
    assert newcomer.epoch == generation + 1
    assert newcomer.names() == {}, "others still have what it is to have"
    members.append(newcomer)
    settle(shard, members)
    assert shard.group.state is ConsumerGroupState.STABLE
    assert sorted(len(member.names()["a"]) for member in members) == [1, 1, 2]
    epoch = shard.group.epoch
    newcomer.leave()
    members.pop()
    assert (classic_group(shard).state, classic_group(shard).generation) == (GroupState.PREPARING_REBALANCE, epoch)
    settle(shard, members)
    assert (classic_group(shard).state, classic_group(shard).generation) == (GroupState.STABLE, epoch + 1)


def test_a_protocol_that_a_member_names_twice_counts_once_in_a_downgrade(shard: ConsumerGroups) -> None:
    members = stable_classic_members(shard, 2)
    newcomer = ConsumerClient(shard, "new", ["a"])
    newcomer.heartbeat()
    settle(shard, [*members, newcomer])
    protocol = members[0].join_request().protocols[0]
    members[0].join(protocols=[protocol, protocol])
    settle(shard, [*members, newcomer])
    newcomer.leave()
    settle(shard, members)
    assert classic_group(shard).elected_protocol() == protocol.name
    assert sorted(len(member.names()["a"]) for member in members) == [2, 2]


def facts(shard: ConsumerGroups) -> tuple[object, ...]:
    group = shard.group
    return dict(group.members), dict(group.targets), group.epoch, group.assignment_epoch


def test_replay_of_a_migration_results_in_the_same_groups(shard: ConsumerGroups) -> None:
    members: list[Anyone] = [*stable_classic_members(shard, 2)]
    newcomer = ConsumerClient(shard, "new", ["a"])
    newcomer.heartbeat()
    before = facts(shard)
    shard.load()
    assert facts(shard) == before
    settle(shard, [*members, newcomer])
    epoch = shard.group.epoch
    newcomer.leave()
    shard.load()
    assert (classic_group(shard).state, classic_group(shard).generation) == (GroupState.PREPARING_REBALANCE, epoch)
    assert set(classic_group(shard).members) == {member.member_id for member in members}  # type: ignore[union-attr]
    settle(shard, members)


def test_upgrade_makes_members_with_parked_responses_rejoin(shard: ConsumerGroups) -> None:
    first, second = ClassicConsumer(shard, ["a"], name="c0"), ClassicConsumer(shard, ["a"], name="c1")
    for member in (first, second, first, second):
        member.act()
    ConsumerClient(shard, "new", ["a"]).heartbeat()
    assert [first.act(), second.act()] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    again = shard_with()
    first, second = ClassicConsumer(again, ["a"], name="c0"), ClassicConsumer(again, ["a"], name="c1")
    for member in (first, second, first, second):
        member.act()
    again.pass_ms(300)
    second.act()
    assert second.syncing is not None
    ConsumerClient(again, "new", ["a"]).heartbeat()
    assert second.act() is AGAIN


def test_upgrade_keeps_partitions_of_a_member_that_has_not_synced(shard: ConsumerGroups) -> None:
    first = stable_classic_members(shard, 1, is_cooperative=True)[0]
    second = ClassicConsumer(shard, ["a"], is_cooperative=True, name="late")
    second.act()
    second.act()
    first.act()  # the response asks it to join again
    assert first.joining is not None
    shard.pass_ms(1)
    first.act()
    assert first.owned, "it assigns, and keeps what it has until it is told"
    newcomer = ConsumerClient(shard, "new", ["a"])
    newcomer.heartbeat()
    assert_no_shared_partitions([first, second, newcomer])
    settle(shard, [first, second, newcomer])


def test_group_that_cannot_be_upgraded_is_not_found_by_consumers() -> None:
    def refusal(shard: ConsumerGroups) -> str:
        with pytest.raises(KafkaError) as refused:
            ConsumerClient(shard, "new", ["a"]).send(ConsumerClient(shard, "new", ["a"]).request())
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert isinstance(shard.state.groups[GROUP], ClassicGroup)
        return str(refused.value)

    for shard in (shard_with(can_upgrade=False), shard_with(members_max=1)):
        stable_classic_members(shard, 2)
        refusal(shard)
    shard = shard_with()
    other = ClassicConsumer(shard, ["a"])
    other.join(protocol_type="connect")
    other.member_id = other.joining.outcome.member_id  # type: ignore[union-attr]
    other.join(protocol_type="connect")
    refusal(shard)
    shard = shard_with()
    unread = ClassicConsumer(shard, ["a"], name="unread")
    unread.subscription = lambda: b"\x00"  # type: ignore[method-assign]
    for _ in range(2):
        unread.act()
    refusal(shard)


def test_upgrade_is_refused_if_assignments_have_user_data(shard: ConsumerGroups) -> None:
    member = ClassicConsumer(shard, ["a"])
    own = b"\x00\x01" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x03own"
    member.assign = lambda response: {member.member_id: own}  # type: ignore[method-assign]
    for _ in range(3):
        member.act()
        shard.pass_ms(300)
    assert classic_group(shard).state is GroupState.STABLE
    with pytest.raises(KafkaError) as refused:
        ConsumerClient(shard, "new", ["a"]).send(ConsumerClient(shard, "new", ["a"]).request())
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_empty_group_of_either_kind_is_replaced(shard: ConsumerGroups) -> None:
    member = stable_classic_members(shard, 1)[0]
    member.leave()
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    assert shard.group.epoch == 1
    client.leave()
    stranger = ClassicConsumer(shard, ["a"])
    stranger.member_id = "stranger"
    stranger.join()
    assert stranger.act() is ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(shard.state.groups[GROUP], ConsumerGroup | ClassicGroup)
    settle(shard, [stranger])
    assert classic_group(shard).generation == 1
    shard.load()
    assert classic_group(shard).generation == 1


def test_group_is_not_downgraded_if_the_policy_forbids_it() -> None:
    shard = shard_with(can_downgrade=False)
    member, client = mixed(shard)
    client.leave()
    assert list(shard.group.members) == [member.member_id]
    settle(shard, [member])


@pytest.mark.parametrize("way", ["session", "revocation"])
def test_group_is_downgraded_when_its_last_consumer_member_expires(shard: ConsumerGroups, way: str) -> None:
    member, client = mixed(shard)
    if way == "revocation":
        other = ClassicConsumer(shard, ["a"], name="other")
        for _ in range(3):
            other.act()
        client.heartbeat()
        other.leave()
    for _ in range(12):
        shard.pass_ms(5_000)
        if isinstance(shard.state.groups[GROUP], ClassicGroup):
            break
        member.act()
    assert classic_group(shard).state is GroupState.PREPARING_REBALANCE
    assert not [key for key in shard.timers.due if str(key[0]).startswith("consumer-")], "of a group that is no more"
    settle(shard, [member])
    assert member.names() == {"a": {0, 1, 2, 3}}


def test_unrevoked_partitions_keep_their_owner_through_downgrade_and_upgrade(shard: ConsumerGroups) -> None:
    (member,) = stable_classic_members(shard, 1)
    for name in ("first", "second"):
        client = ConsumerClient(shard, name, ["a"])
        client.heartbeat()
        client.leave()
        assert classic_group(shard).state is GroupState.PREPARING_REBALANCE
    client = ConsumerClient(shard, "third", ["a"])
    client.heartbeat()
    assert_no_shared_partitions([member, client])
    assert owned([member]) == [0, 1, 2, 3]
    settle(shard, [member, client])


def test_static_members_partitions_are_kept_until_its_replacement_is_answered(shard: ConsumerGroups) -> None:
    static = ConsumerClient(shard, "static", ["a"], instance_id="x")
    static.heartbeat()
    for name, instance_id in (("other", None), ("x", "x")):
        classic = ClassicConsumer(shard, ["a"], instance_id=instance_id, name=name)
        classic.act()
        classic.act()
    assert classic_group(shard).state is GroupState.PREPARING_REBALANCE
    shard.load()
    client = ConsumerClient(shard, "client", ["a"])
    client.heartbeat()
    assert_no_shared_partitions([static, client])
