"""Groups that go from one protocol to the other while their members consume (KIP-848)."""

from collections.abc import Sequence

import pytest

from broker.coordinator.decision import CoordinatorError
from broker.coordinator.group.classic.group import ClassicGroup, GroupState
from broker.coordinator.group.classic_requests import list_groups
from broker.coordinator.group.consumer.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.describing import describe
from broker.coordinator.group.consumer.group import ConsumerGroup, ConsumerGroupState
from broker.coordinator.group.consumer.member import MemberState
from broker.coordinator.group.group_config import GroupConfig
from broker.wire.api.consumer_group_describe import CLASSIC_MEMBER, CONSUMER_MEMBER
from broker.wire.errors import ErrorCode
from tests.support.classic_consumers import SESSION_MS, ClassicConsumer
from tests.support.consumer_clients import GROUP, ConsumerClient, ConsumerGroups, refused

NONE, AGAIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
Anyone = ClassicConsumer | ConsumerClient


def shard_with(**fields: object) -> ConsumerGroups:
    """A topic of four partitions, and these settings of consumer groups."""
    shard = ConsumerGroups(GroupConfig(consumer=ConsumerGroupConfig(**fields), initial_rebalance_delay_ms=100))  # type: ignore[arg-type]
    shard.create_topic("a", 4)
    return shard


@pytest.fixture
def shard() -> ConsumerGroups:
    return shard_with()


def classics(shard: ConsumerGroups, count: int, *, is_cooperative: bool = False) -> list[ClassicConsumer]:
    """Members of a classic group, which have what they are to have."""
    members = [ClassicConsumer(shard, ["a"], is_cooperative=is_cooperative, name=f"c{at}") for at in range(count)]
    settle(shard, members)
    return members


def act(member: Anyone) -> None:
    if isinstance(member, ClassicConsumer):
        member.act()
    else:
        member.heartbeat()


def settle(shard: ConsumerGroups, members: Sequence[Anyone]) -> None:
    """Have everybody do what it is told, until all partitions are in the hands of one each and nothing changes."""
    for _ in range(30):
        before = [member.names() for member in members]
        for member in members:
            act(member)
            nobody_has_what_another_has(members)
        shard.pass_ms(200)
        is_quiet = all(not isinstance(member, ClassicConsumer) or member.is_settled for member in members)
        if is_quiet and before == [member.names() for member in members] and owned(members) == [0, 1, 2, 3]:
            return
    raise AssertionError(f"not settled: {[member.names() for member in members]}")


def owned(members: Sequence[Anyone]) -> list[int]:
    return sorted(index for member in members for index in member.names().get("a", set()))


def nobody_has_what_another_has(members: Sequence[Anyone]) -> None:
    assert len(owned(members)) == len(set(owned(members))), [member.names() for member in members]


def classic_group(shard: ConsumerGroups) -> ClassicGroup:
    group = shard.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_a_classic_group_becomes_a_consumer_group_and_a_classic_one_again(
    shard: ConsumerGroups, is_cooperative: bool
) -> None:
    members: list[Anyone] = [*classics(shard, 2, is_cooperative=is_cooperative)]
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


def facts(shard: ConsumerGroups) -> tuple[object, ...]:
    group = shard.group
    return dict(group.members), dict(group.targets), group.epoch, group.assignment_epoch


def test_what_is_written_makes_the_same_groups(shard: ConsumerGroups) -> None:
    members: list[Anyone] = [*classics(shard, 2)]
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


def test_who_waits_to_join_or_to_sync_is_told_to_join_again(shard: ConsumerGroups) -> None:
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


def test_a_member_that_has_not_fetched_its_assignment_still_has_what_it_had(shard: ConsumerGroups) -> None:
    first = classics(shard, 1, is_cooperative=True)[0]
    second = ClassicConsumer(shard, ["a"], is_cooperative=True, name="late")
    second.act()
    second.act()
    first.act()  # is told to join again
    assert first.joining is not None
    shard.pass_ms(1)
    first.act()
    assert first.owned, "it assigns, and keeps what it has until it is told"
    newcomer = ConsumerClient(shard, "new", ["a"])
    newcomer.heartbeat()
    nobody_has_what_another_has([first, second, newcomer])
    settle(shard, [first, second, newcomer])


def test_groups_that_cannot_be_upgraded_are_not_there_for_the_newcomer() -> None:
    def refusal(shard: ConsumerGroups) -> str:
        with pytest.raises(CoordinatorError) as refused:
            ConsumerClient(shard, "new", ["a"]).send(ConsumerClient(shard, "new", ["a"]).request())
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert isinstance(shard.state.groups[GROUP], ClassicGroup)
        return str(refused.value)

    for shard in (shard_with(can_upgrade=False), shard_with(members_max=1)):
        classics(shard, 2)
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


def test_an_assignor_that_keeps_data_in_assignments_is_not_taken_from_its_members(shard: ConsumerGroups) -> None:
    member = ClassicConsumer(shard, ["a"])
    own = b"\x00\x01" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x03own"
    member.assign = lambda response: {member.member_id: own}  # type: ignore[method-assign]
    for _ in range(3):
        member.act()
        shard.pass_ms(300)
    assert classic_group(shard).state is GroupState.STABLE
    with pytest.raises(CoordinatorError) as refused:
        ConsumerClient(shard, "new", ["a"]).send(ConsumerClient(shard, "new", ["a"]).request())
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_of_either_kind_gives_way(shard: ConsumerGroups) -> None:
    member = classics(shard, 1)[0]
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


# Members of the classic protocol in a consumer group


def mixed(shard: ConsumerGroups, *, is_cooperative: bool = False) -> tuple[ClassicConsumer, ConsumerClient]:
    """One of each in a consumer group, both of which have what they are to have."""
    member = ClassicConsumer(shard, ["a"], is_cooperative=is_cooperative, name="old")
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    settle(shard, [client, member])
    return member, client


def test_a_classic_member_joins_a_consumer_group(shard: ConsumerGroups) -> None:
    member, client = mixed(shard)
    assert (len(owned([member])), len(owned([client]))) == (2, 2)
    described = describe(shard.state, GROUP)
    assert [each.member_type for each in described.members] == [CONSUMER_MEMBER, CLASSIC_MEMBER]
    listed = list_groups(shard.state, [], [])
    assert [(each.group_type, each.group_state, each.protocol_type) for each in listed] == [
        ("consumer", "Stable", "consumer")
    ]


def test_who_was_given_up_with_partitions_in_its_hands_hears_so(shard: ConsumerGroups) -> None:
    (member,) = classics(shard, 1, is_cooperative=True)
    shard.pass_ms(45_000)
    client = ConsumerClient(shard, "client", ["a"])
    client.heartbeat()
    assert client.names() == member.names() == {"a": {0, 1, 2, 3}}
    member.join()
    assert member.act() is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.names() == {}
    settle(shard, [member, client])


def test_a_newcomer_is_told_its_id_first_and_its_protocol(shard: ConsumerGroups) -> None:
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


def test_an_id_is_good_for_joining_once_it_was_offered_and_not_for_ever(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "client", ["a"])
    client.heartbeat()
    early, late = (ClassicConsumer(shard, ["a"], name=name) for name in ("early", "late"))
    early.join()
    early.act()
    assert early.member_id in shard.group.members
    late.join()
    shard.pass_ms(SESSION_MS)
    client.heartbeat()
    late.act()
    assert late.act() is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_a_classic_group_offered_is_good_for_the_consumer_group(shard: ConsumerGroups) -> None:
    classics(shard, 1)
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


def test_a_full_group_takes_nobody() -> None:
    shard = shard_with(members_max=2)
    mixed(shard)
    assert ClassicConsumer(shard, ["a"]).join().outcome.code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_who_has_to_give_something_up_is_told_to_join_again_until_it_has(shard: ConsumerGroups) -> None:
    member = ClassicConsumer(shard, ["a"], is_cooperative=True, name="old")
    watcher = ConsumerClient(shard, "watcher", [])
    watcher.heartbeat()
    settle(shard, [member, watcher])
    generation = member.generation
    client = ConsumerClient(shard, "new", ["a"])
    client.heartbeat()
    assert member.heartbeat() == AGAIN
    member.act()
    member.act()  # has joined
    state = shard.group.members[member.member_id]
    assert (state.state, state.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, generation)
    assert member.heartbeat() == AGAIN
    member.act()  # is given less, gives up the rest, and joins
    assert shard.group.members[member.member_id].state is MemberState.STABLE
    assert (len(member.owned["a"]), member.generation) == (2, generation)
    client.heartbeat()
    assert client.names() == {"a": {0, 1, 2, 3} - member.names()["a"]}


def test_a_classic_member_waits_for_what_others_have(shard: ConsumerGroups) -> None:
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


@pytest.mark.parametrize("request_kind", ["session", "join", "sync"])
def test_who_does_not_come_in_time_is_gone(shard: ConsumerGroups, request_kind: str) -> None:
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


def test_leaving(shard: ConsumerGroups) -> None:
    member, client = mixed(shard)
    assert member.leave() == [NONE]
    assert member.leave() == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(shard.group.members) == [client.member_id]
    client.heartbeat()
    assert client.names() == {"a": {0, 1, 2, 3}}


def test_an_administrator_sends_members_of_both_protocols_away(shard: ConsumerGroups) -> None:
    client = ConsumerClient(shard, "new", ["a"], instance_id="i")
    client.heartbeat()
    one = ClassicConsumer(shard, ["a"], name="old")
    one.instance_id, one.member_id = "i", ""
    assert one.leave() == [NONE]
    assert shard.group.is_empty


# Static members


def test_static_members_change_the_protocol_one_by_one_and_keep_what_they_have(shard: ConsumerGroups) -> None:
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


def test_a_static_member_back_with_other_wishes_brings_a_rebalance(shard: ConsumerGroups) -> None:
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


# The last member of the consumer protocol


def test_a_static_member_is_fenced_whose_place_was_taken_in_the_other_protocol(shard: ConsumerGroups) -> None:
    """Else both would take the group for themselves, again and again."""
    client = ConsumerClient(shard, "new", ["a"], instance_id="x")
    client.heartbeat()
    classic = ClassicConsumer(shard, ["a"], instance_id="x", name="x")
    classic.act()
    assert isinstance(shard.state.groups[GROUP], ClassicGroup)
    assert refused(client.heartbeat) is ErrorCode.FENCED_INSTANCE_ID
    settle(shard, [classic])
    assert classic.names() == {"a": {0, 1, 2, 3}}


def test_a_group_stays_what_it_is_where_it_may_not_be_downgraded() -> None:
    shard = shard_with(can_downgrade=False)
    member, client = mixed(shard)
    client.leave()
    assert list(shard.group.members) == [member.member_id]
    settle(shard, [member])


@pytest.mark.parametrize("way", ["session", "revocation"])
def test_a_group_is_downgraded_when_its_last_member_of_the_consumer_protocol_is_given_up(
    shard: ConsumerGroups, way: str
) -> None:
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


def test_what_a_member_had_yet_to_give_up_is_its_own_when_its_group_changes_twice(shard: ConsumerGroups) -> None:
    (member,) = classics(shard, 1)
    for name in ("first", "second"):
        client = ConsumerClient(shard, name, ["a"])
        client.heartbeat()
        client.leave()
        assert classic_group(shard).state is GroupState.PREPARING_REBALANCE
    client = ConsumerClient(shard, "third", ["a"])
    client.heartbeat()
    nobody_has_what_another_has([member, client])
    assert owned([member]) == [0, 1, 2, 3]
    settle(shard, [member, client])


def test_what_a_static_member_had_is_its_own_until_another_one_in_its_place_is_answered(shard: ConsumerGroups) -> None:
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
    nobody_has_what_another_has([static, client])


def test_commits_of_classic_members_are_of_their_epoch(shard: ConsumerGroups) -> None:
    member, _ = mixed(shard)
    validate = shard.group.validate_offset_commit
    validate(member.member_id, None, member.generation, api_version=8, is_transactional=False)
    with pytest.raises(CoordinatorError) as refused:
        validate(member.member_id, None, member.generation - 1, api_version=8, is_transactional=False)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
