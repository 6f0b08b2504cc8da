"""Static members of classic groups: a restarted member keeps its assignment (KIP-345, KIP-814)."""

import pytest

from broker.coordinator.group.classic.classic_group import GroupState
from broker.coordinator.runtime.completion import Completion
from broker.wire.api.join_group import JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.errors import ErrorCode
from tests.support.classic_clients import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicClients, code, told

NONE, FENCED = ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID


@pytest.fixture
def clients() -> ClassicClients:
    return ClassicClients()


def joined(clients: ClassicClients) -> list[str]:
    """The member ids of the static members a and b in generation 1, which is not complete yet; a leads."""
    joining = [clients.ask_to_join(instance_id=instance_id) for instance_id in "ab"]
    clients.pass_ms(2 * INITIAL_DELAY_MS)
    return [told(each).member_id for each in joining]


def stable(clients: ClassicClients) -> list[str]:
    members = joined(clients)
    clients.sync_all(members)
    return members


def back(clients: ClassicClients, instance_id: str, **fields: object) -> Completion[JoinGroupResponse]:
    return clients.ask_to_join(instance_id=instance_id, **fields)


def test_a_static_member_joins_with_its_instance_id_alone(clients: ClassicClients) -> None:
    a, b = joined(clients)
    assert a.startswith("a-")
    assert clients.group.static_members == {"a": a, "b": b}


def test_restarted_static_member_keeps_its_assignment_without_a_rebalance(clients: ClassicClients) -> None:
    stable(clients)
    response = told(back(clients, "b"))
    assert (response.error_code, response.generation_id, response.skip_assignment) == (NONE, 1, False)
    assert told(clients.ask_to_sync(response.member_id, 1, instance_id="b")).assignment == b"1"
    assert clients.group.state is GroupState.STABLE
    clients.load()
    assert clients.group.static_members["b"] == response.member_id, "it is written down who is b now"


def test_restarted_leader_skips_the_assignment_kip_814(clients: ClassicClients) -> None:  # KIP-814
    stable(clients)
    response = told(back(clients, "a"))
    assert (response.leader, response.skip_assignment, len(response.members)) == (response.member_id, True, 2)
    assert clients.group.leader_id == response.member_id


def test_restarted_leader_before_version_9_is_told_of_the_former_leader(clients: ClassicClients) -> None:
    a, _ = stable(clients)
    response = told(back(clients, "a", version=8))
    assert (response.leader, response.skip_assignment, response.members) == (a, False, [])


def test_former_incarnation_of_a_static_member_is_fenced(clients: ClassicClients) -> None:
    _, b = stable(clients)
    current = told(back(clients, "b")).member_id
    assert clients.heartbeat(b, 1, "b") == FENCED
    assert code(clients.ask_to_sync(b, 1, instance_id="b")) == FENCED
    assert code(clients.ask_to_join(b, instance_id="b")) == FENCED
    assert clients.leave(MemberIdentity(member_id=b, group_instance_id="b")) == [FENCED]
    assert clients.heartbeat(b, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert clients.heartbeat(current, 1, "b") == NONE
    assert clients.heartbeat(current, 1, "unknown") == ErrorCode.UNKNOWN_MEMBER_ID


def test_parked_responses_of_the_former_incarnation_are_fenced(clients: ClassicClients) -> None:
    a, b = stable(clients)
    joining = clients.ask_to_join(a, instance_id="a")
    again = back(clients, "a")
    assert code(joining) == FENCED
    clients.ask_to_join(b, instance_id="b")
    assert code(again) == NONE
    syncing = clients.ask_to_sync(b, 2, instance_id="b")
    again = back(clients, "b")
    assert code(syncing) == FENCED
    assert clients.group.state is GroupState.PREPARING_REBALANCE, "the leader may be assigning to b's former id"
    assert not again.done


def test_other_protocols_lead_to_a_rebalance(clients: ClassicClients) -> None:
    a = told_alone(clients, {"range": b"", "sticky": b""})
    assert clients.group.protocol_name == "range"
    again = back(clients, "a", protocols={"sticky": b"", "range": b""})
    assert told(again).generation_id == 2
    assert told(again).protocol_name == "sticky"
    assert told(again).member_id != a


def told_alone(clients: ClassicClients, protocols: dict[str, bytes]) -> str:
    joining = back(clients, "a", protocols=protocols)
    clients.pass_ms(INITIAL_DELAY_MS)
    member_id: str = told(joining).member_id
    clients.sync_all([member_id], {member_id: "a"})
    return member_id


def test_static_member_stays_in_generations_that_it_does_not_join(clients: ClassicClients) -> None:
    fields = {"session_timeout_ms": 3 * REBALANCE_MS}
    joining = [back(clients, instance_id, **fields) for instance_id in "ab"]
    clients.pass_ms(2 * INITIAL_DELAY_MS)
    a, b = (told(each).member_id for each in joining)
    clients.sync_all([a, b])
    rejoining = clients.ask_to_join(a, instance_id="a", **fields)
    clients.pass_ms(REBALANCE_MS)
    assert [each.member_id for each in told(rejoining).members] == [a, b]


def test_generation_does_not_begin_before_a_member_has_joined(clients: ClassicClients) -> None:
    fields = {"session_timeout_ms": 10 * REBALANCE_MS}
    joining = [back(clients, instance_id, **fields) for instance_id in "ab"]
    clients.pass_ms(2 * INITIAL_DELAY_MS)
    a, b = (told(each).member_id for each in joining)
    clients.sync_all([a, b])
    dynamic = clients.ask_to_join(version=3)
    clients.leave(next(each for each in clients.group.members if each not in (a, b)))
    assert code(dynamic) == ErrorCode.UNKNOWN_MEMBER_ID
    clients.pass_ms(2 * REBALANCE_MS)
    assert (clients.group.state, clients.group.generation) == (GroupState.PREPARING_REBALANCE, 1)
    rejoining = clients.ask_to_join(b, instance_id="b", **fields)
    clients.pass_ms(REBALANCE_MS)
    assert told(rejoining).leader == b


def test_static_member_is_removed_when_its_session_expires(clients: ClassicClients) -> None:
    stable(clients)
    clients.pass_ms(SESSION_MS)
    assert clients.group.state is GroupState.EMPTY
    assert not clients.group.static_members


def test_administrator_removes_static_members_by_instance_id(clients: ClassicClients) -> None:
    stable(clients)
    names = [MemberIdentity(group_instance_id=each) for each in ("a", "b", "c")]
    assert clients.leave(*names) == [NONE, NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert clients.group.state is GroupState.EMPTY


def test_member_without_ids_is_not_the_static_member_with_an_empty_instance_id(clients: ClassicClients) -> None:
    """LeaveGroup has no instance ids before version 3."""
    joining = clients.ask_to_join(instance_id="")
    clients.pass_ms(2 * INITIAL_DELAY_MS)
    assert told(joining).error_code == NONE
    assert clients.leave("") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert clients.leave(MemberIdentity(group_instance_id="")) == [NONE]


def test_pending_member_id_is_no_static_member(clients: ClassicClients) -> None:
    expected = clients.new_member_id()
    assert code(clients.ask_to_join(expected, instance_id="a")) == ErrorCode.UNKNOWN_MEMBER_ID
