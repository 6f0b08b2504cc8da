"""Classic groups by example: one rule per test, with the name that Kafka or the KIP gives it."""

import pytest

from broker.coordinator.group.classic.classic_group import GroupState
from broker.coordinator.group.config import GroupConfig
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.errors import ErrorCode
from tests.support.classic_clients import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicClients,
    code,
    told,
)

NONE = ErrorCode.NONE


@pytest.fixture
def clients() -> ClassicClients:
    return ClassicClients()


# Joining


def test_member_without_id_is_told_one_and_joins_with_it_kip_394(clients: ClassicClients) -> None:  # KIP-394
    member_id = clients.new_member_id()
    assert member_id.startswith("member-")
    assert not clients.group.members
    joining = clients.ask_to_join(member_id)
    clients.pass_ms(INITIAL_DELAY_MS)
    assert code(joining) == NONE
    assert told(joining).leader == told(joining).member_id == member_id


def test_join_before_version_4_returns_the_member_id_with_the_generation(clients: ClassicClients) -> None:
    joining = clients.ask_to_join(version=3)
    clients.pass_ms(INITIAL_DELAY_MS)
    assert code(joining) == NONE
    assert told(joining).member_id in clients.group.members


def test_pending_member_id_expires_after_the_session_timeout(clients: ClassicClients) -> None:
    member_id = clients.new_member_id()
    clients.pass_ms(SESSION_MS)
    assert GROUP not in clients.state.groups
    assert code(clients.ask_to_join(member_id)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not clients.log


def test_rebalance_waits_for_pending_members(clients: ClassicClients) -> None:
    members = clients.stable(2)
    clients.new_member_id()
    joining = [clients.ask_to_join(each) for each in members]
    assert not joining[0].done
    clients.pass_ms(SESSION_MS)
    assert [code(each) for each in joining] == [NONE, NONE]


def test_an_unknown_member_cannot_join(clients: ClassicClients) -> None:
    assert code(clients.ask_to_join("nobody")) == ErrorCode.UNKNOWN_MEMBER_ID
    clients.stable(1)
    assert code(clients.ask_to_join("nobody")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_generation_waits_for_more_members(clients: ClassicClients) -> None:
    first = clients.ask_to_join(version=3)
    clients.pass_ms(INITIAL_DELAY_MS - 1)
    second = clients.ask_to_join(version=3)
    clients.pass_ms(1)
    assert not first.done, "somebody has come, so more may come"
    clients.pass_ms(INITIAL_DELAY_MS)
    assert told(first).generation_id == told(second).generation_id == 1


def test_initial_delay_ends_with_the_rebalance_timeout(clients: ClassicClients) -> None:
    timeout_ms = 2 * INITIAL_DELAY_MS
    first = clients.ask_to_join(version=3, rebalance_timeout_ms=timeout_ms)
    for _ in range(timeout_ms // 1000 - 1):
        clients.pass_ms(1000)
        clients.ask_to_join(version=3, rebalance_timeout_ms=timeout_ms)
    assert not first.done
    clients.pass_ms(1000)
    assert code(first) == NONE


def test_only_the_leader_gets_the_members(clients: ClassicClients) -> None:
    members = [clients.new_member_id() for _ in range(3)]
    joining = [clients.ask_to_join(each, protocols={"range": each.encode()}) for each in members]
    clients.pass_ms(10 * INITIAL_DELAY_MS)
    leader, *followers = map(told, joining)
    assert [(each.member_id, each.metadata) for each in leader.members] == [(each, each.encode()) for each in members]
    assert {each.leader for each in followers} == {members[0]}
    assert not any(each.members for each in followers)


def test_members_vote_for_the_protocol(clients: ClassicClients) -> None:
    wishes = [{"a": b"", "b": b"", "c": b""}, {"b": b"", "c": b""}, {"c": b"", "b": b""}]
    joining = [clients.ask_to_join(version=3, protocols=wish) for wish in wishes]
    clients.pass_ms(10 * INITIAL_DELAY_MS)
    assert {told(each).protocol_name for each in joining} == {"b"}, "only b and c are known to all, and two prefer b"


def test_a_protocol_that_a_member_names_twice_counts_once(clients: ClassicClients) -> None:
    twice = [("a", b"first"), ("a", b"second"), ("b", b"")]
    joining = [clients.ask_to_join(version=3, protocols=wish) for wish in (twice, {"b": b"", "a": b""}, twice)]
    clients.pass_ms(10 * INITIAL_DELAY_MS)
    assert {told(each).protocol_name for each in joining} == {"a"}
    assert [each.metadata for each in told(joining[0]).members] == [b"first", b"", b"first"]


@pytest.mark.parametrize(
    "fields", [{"protocols": {"other": b""}}, {"protocol_type": "connect"}, {"protocols": {}}, {"protocol_type": ""}]
)
def test_members_have_a_protocol_in_common(clients: ClassicClients, fields: dict[str, object]) -> None:
    clients.stable(1)
    assert code(clients.ask_to_join(**fields)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("fields", [{"protocols": {}}, {"protocol_type": ""}])
def test_the_first_member_has_a_protocol(clients: ClassicClients, fields: dict[str, object]) -> None:
    assert code(clients.ask_to_join(**fields)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert GROUP not in clients.state.groups


def test_join_in_the_same_generation_returns_the_same_response(clients: ClassicClients) -> None:
    leader, follower = clients.join_all(2)
    for member in (leader, follower):  # CompletingRebalance
        again = told(clients.ask_to_join(member))
        assert (again.error_code, again.generation_id, len(again.members)) == (NONE, 1, 2 if member == leader else 0)
    clients.sync_all([leader, follower])
    again = told(clients.ask_to_join(follower))  # Stable
    assert (again.error_code, again.generation_id, again.members) == (NONE, 1, [])
    assert clients.group.state is GroupState.STABLE


def test_the_leader_asks_for_a_rebalance_by_joining(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    joining = clients.ask_to_join(leader)
    assert clients.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code(clients.ask_to_join(follower)) == NONE
    assert told(joining).generation_id == 2


def test_a_member_with_other_subscriptions_asks_for_a_rebalance(clients: ClassicClients) -> None:
    _, follower = clients.stable(2)
    clients.ask_to_join(follower, protocols={"range": b"other"})
    assert clients.group.state is GroupState.PREPARING_REBALANCE


def test_second_join_completes_the_first_parked_one(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    first, second = clients.ask_to_join(leader), clients.ask_to_join(leader)
    assert code(first) == ErrorCode.REBALANCE_IN_PROGRESS
    clients.ask_to_join(follower)
    assert code(second) == NONE


def test_members_that_do_not_rejoin_are_removed(clients: ClassicClients) -> None:
    leader, *others = clients.stable(3)
    joining = [clients.ask_to_join(each, protocols={"range": b"new"}) for each in others]
    for _ in range(REBALANCE_MS // 1000):
        assert not joining[0].done
        clients.heartbeat(leader, 1)
        clients.pass_ms(1000)
    assert [told(each).generation_id for each in joining] == [2, 2]
    assert {told(each).leader for each in joining} == {others[0]}
    assert clients.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_max_size_refuses_further_members() -> None:  # KIP-389
    clients = ClassicClients(GroupConfig(group_max_size=2, initial_rebalance_delay_ms=INITIAL_DELAY_MS))
    first, second = clients.stable(2)
    assert code(clients.ask_to_join()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(clients.ask_to_join(second)) == NONE
    clients.ask_to_join(first)
    assert clients.group.state is GroupState.PREPARING_REBALANCE
    late = clients.new_member_id()
    joining = clients.ask_to_join(second)
    assert not joining.done
    assert code(clients.ask_to_join(late)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(joining) == NONE


# Syncing


def test_members_get_the_assignments_of_the_leader(clients: ClassicClients) -> None:
    leader, second, third = clients.join_all(3)
    waiting = clients.ask_to_sync(second, 1)
    assert not waiting.done
    assert not clients.log
    assert told(clients.ask_to_sync(leader, 1, {leader: b"L", second: b"S"})).assignment == b"L"
    assert (told(waiting).assignment, told(waiting).protocol_name) == (b"S", "range")
    assert told(clients.ask_to_sync(third, 1)).assignment == b"", "nothing was assigned to it"
    assert len(clients.log) == 1, "a generation is one record"
    assert clients.group.state is GroupState.STABLE


def test_sync_errors(clients: ClassicClients) -> None:
    assert code(clients.ask_to_sync("nobody", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = clients.join_all(2)
    assert code(clients.ask_to_sync("nobody", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(clients.ask_to_sync(leader, 2)) == ErrorCode.ILLEGAL_GENERATION
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(clients.ask_to_sync(leader, 1, protocol_type="connect")) == inconsistent
    assert code(clients.ask_to_sync(leader, 1, protocol_name="sticky")) == inconsistent
    clients.leave(follower)
    assert code(clients.ask_to_sync(leader, 1)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_rebalance_completes_parked_syncs(clients: ClassicClients) -> None:
    _, follower = clients.join_all(2)
    waiting = clients.ask_to_sync(follower, 1)
    clients.ask_to_join(version=3)
    assert code(waiting) == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_are_removed(clients: ClassicClients) -> None:
    leader, follower, silent = clients.join_all(3)
    clients.ask_to_sync(follower, 1)
    clients.ask_to_sync(leader, 1, {})
    for _ in range(REBALANCE_MS // 1000):
        for each in (leader, follower, silent):
            assert clients.heartbeat(each, 1) == NONE
        clients.pass_ms(1000)
    assert list(clients.group.members) == [leader, follower]
    assert clients.group.state is GroupState.PREPARING_REBALANCE


# Sessions


def test_member_is_removed_when_its_session_expires(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    for _ in range(2 * SESSION_MS // 1000):
        clients.heartbeat(leader, 1)
        clients.pass_ms(1000)
    assert list(clients.group.members) == [leader]
    assert clients.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert clients.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert told(clients.ask_to_join(leader)).generation_id == 2


def test_heartbeat_of_another_generation_does_not_prolong_the_session(clients: ClassicClients) -> None:
    (member,) = clients.stable(1)
    assert clients.heartbeat(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert clients.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    clients.pass_ms(SESSION_MS)
    assert clients.group.state is GroupState.EMPTY


def test_commits_keep_a_member_alive(clients: ClassicClients) -> None:
    (member,) = clients.stable(1)
    for _ in range(2 * SESSION_MS // 1000):
        clients.group.committed(member, clients.timers)
        clients.pass_ms(1000)
    assert list(clients.group.members) == [member]


def test_session_does_not_expire_while_a_response_is_parked(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    clients.ask_to_join(leader)
    for _ in range(2 * SESSION_MS // 1000):
        clients.heartbeat(follower, 1)
        clients.pass_ms(1000)
    assert leader in clients.group.members
    clients.ask_to_join(follower)
    clients.pass_ms(SESSION_MS)
    assert clients.group.state is GroupState.EMPTY, "from the answer on both have to"


def test_new_member_is_removed_after_its_join_timeout(clients: ClassicClients) -> None:
    day_ms = 24 * 3600 * 1000
    leader = clients.stable(1, session_timeout_ms=day_ms, rebalance_timeout_ms=day_ms)[0]
    newcomer = clients.ask_to_join(version=3)
    clients.pass_ms(5 * 60 * 1000 - 1)
    assert not newcomer.done
    clients.pass_ms(1)
    assert code(newcomer) == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(clients.group.members) == [leader]


# Leaving


def test_members_leave_and_the_others_rebalance(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    assert clients.leave(leader, "nobody") == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert told(clients.ask_to_join(follower)).leader == follower


def test_group_is_empty_and_written_when_all_members_have_left(clients: ClassicClients) -> None:
    clients.leave(*clients.stable(2))
    assert (clients.group.state, clients.group.generation) == (GroupState.EMPTY, 2)
    clients.load()
    assert (clients.group.state, clients.group.generation) == (GroupState.EMPTY, 2)
    assert clients.group.protocol_type == "consumer"


def test_pending_member_can_leave(clients: ClassicClients) -> None:
    (member,) = clients.stable(1)
    expected = clients.new_member_id()
    joining = clients.ask_to_join(member)
    assert clients.leave(expected) == [NONE]
    assert code(joining) == NONE


def test_leave_completes_the_members_parked_response(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    joining = clients.ask_to_join(leader)
    clients.leave(leader)
    assert code(joining) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(clients.ask_to_join(follower)) == NONE
    newcomer = clients.ask_to_join(version=3)
    assert code(clients.ask_to_join(follower)) == NONE
    clients.sync_all([follower, told(newcomer).member_id])


def test_leave_of_an_unknown_group_is_refused(clients: ClassicClients) -> None:
    assert clients.leave("nobody", MemberIdentity(group_instance_id="a")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


# Joining


def test_next_coordinator_continues_the_generation(clients: ClassicClients) -> None:
    members = clients.stable(3)
    clients.load()
    assert [clients.heartbeat(each, 1) for each in members] == [NONE] * 3
    assert told(clients.ask_to_sync(members[1], 1)).assignment == b"1"
    assert (clients.group.leader_id, clients.group.protocol_name) == (members[0], "range")
    clients.pass_ms(SESSION_MS)
    assert clients.group.state is GroupState.EMPTY


def test_rebalance_starts_again_under_the_next_coordinator(clients: ClassicClients) -> None:
    leader, follower = clients.stable(2)
    clients.ask_to_join(leader)
    clients.load()
    assert clients.group.state is GroupState.STABLE
    joining = clients.ask_to_join(leader)
    assert code(clients.ask_to_join(follower)) == NONE
    assert told(joining).generation_id == 2


def test_a_group_that_has_become_too_large_rebalances(clients: ClassicClients) -> None:
    members = clients.stable(3)
    clients.config = GroupConfig(group_max_size=2)
    clients.load()
    assert [clients.heartbeat(each, 1) for each in members] == [ErrorCode.REBALANCE_IN_PROGRESS] * 3
    joining = [clients.ask_to_join(each) for each in members]
    assert [code(each) for each in joining] == [NONE, NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_tombstone_removes_the_group(clients: ClassicClients) -> None:
    clients.leave(*clients.stable(1))
    clients.append(*clients.group.tombstones())
    assert GROUP not in clients.state.groups
    clients.load()
    assert GROUP not in clients.state.groups
