"""A member of a classic group, by example: its requests, and the effects of each response."""

from typing import Any

import attrs
import pytest

from broker.client.consumer.errors import AssignmentError
from broker.client.consumer.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from broker.client.consumer.group.classic.membership import ClassicMembership, ClassicSettings, Next, Preparation, State
from broker.client.consumer.group.classic.messages import assignment_bytes, read_assignment, read_member
from broker.client.types import TopicPartition
from broker.wire.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from broker.wire.api.sync_group import SyncGroupResponse
from broker.wire.errors import ErrorCode

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ONE: list[Assignor] = [RangeAssignor()]
COOPERATIVE: list[Assignor] = [CooperativeStickyAssignor()]


def member(assignors: list[Assignor] = ONE, **fields: Any) -> ClassicMembership:
    settings = ClassicSettings(
        group_id="g",
        instance_id=None,
        rack="r1",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        assignors=assignors,
    )
    return ClassicMembership(attrs.evolve(settings, **fields))


def join_response(member: ClassicMembership, **fields: Any) -> JoinGroupResponse:
    given: dict[str, Any] = {
        "generation_id": 1,
        "protocol_type": "consumer",
        "protocol_name": member.settings.assignors[0].name,
        "leader": "other",
        "member_id": "me",
    }
    return JoinGroupResponse(**given | fields)


def joined(
    assignors: list[Assignor] = ONE, owned: frozenset[TopicPartition] = frozenset({A0}), **fields: Any
) -> ClassicMembership:
    """A stable member of generation 1."""
    stable = member(assignors, **fields)
    stable.join_request(["a"], ())
    assert stable.on_join(join_response(stable)) is Next.GO_ON
    stable.sync_request({})
    assert stable.on_sync(SyncGroupResponse(assignment=assignment_bytes(sorted(owned)))) == (Next.GO_ON, owned)
    return stable


def test_a_join_offers_every_assignor_with_its_own_subscription() -> None:
    joining = member([RangeAssignor(), CooperativeStickyAssignor()])
    request = joining.join_request(["b", "a"], [A1, A0])
    assert [each.name for each in request.protocols] == ["range", "cooperative-sticky"]
    read = read_member(JoinGroupResponseMember(metadata=request.protocols[1].metadata))
    assert (read.topics, read.owned, read.generation, read.rack) == (["a", "b"], [A0, A1], -1, "r1")
    assert read.user_data == b"\xff\xff\xff\xff"
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (45_000, 300_000)


def test_sticky_user_data_survives_a_revocation() -> None:
    stable = joined([StickyAssignor()])
    request = stable.join_request(["a"], ())
    user_data = read_member(JoinGroupResponseMember(metadata=request.protocols[0].metadata)).user_data
    assert user_data == b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\0\0\0\0\1"


def test_a_member_id_that_is_required_is_used_at_once_kip_394() -> None:
    joining = member()
    joining.join_request(["a"], ())
    response = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
    assert joining.on_join(response) is Next.REJOIN
    request = joining.join_request(["a"], ())
    assert request.member_id == "me"
    assert request.reason == "need to re-join with the given member-id: me"


def test_the_leader_assigns_and_others_send_nothing() -> None:
    leader = member()
    subscription = leader.join_request(["a"], ()).protocols[0].metadata
    members = [JoinGroupResponseMember(member_id=each, metadata=subscription) for each in ("me", "other")]
    leader.on_join(join_response(leader, leader="me", members=members))
    assert leader.is_leader
    assert leader.group_topics == {"a"}
    request = leader.sync_request({"a": [frozenset()] * 2})
    assert {each.member_id: read_assignment(each.assignment) for each in request.assignments} == {
        "me": [A0],
        "other": [A1],
    }
    assert joined().sync_request({"a": [frozenset()] * 2}).assignments == []


def test_a_leader_leaves_the_assignment_as_it_is_when_told_kip_814() -> None:
    leader = member()
    metadata = leader.join_request(["a"], ()).protocols[0].metadata
    members = [JoinGroupResponseMember(member_id="me", metadata=metadata)]
    leader.on_join(join_response(leader, leader="me", members=members, skip_assignment=True))
    assert leader.is_leader
    assert leader.sync_request({"a": [frozenset()]}).assignments == []


JOIN_ERRORS = [
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.RETRY, "me", 1),
    (ErrorCode.REBALANCE_IN_PROGRESS, Next.RETRY, "me", 1),
    (ErrorCode.NOT_COORDINATOR, Next.FIND_COORDINATOR, "me", 1),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.FIND_COORDINATOR, "me", 1),
    (ErrorCode.UNKNOWN_MEMBER_ID, Next.RESET_MEMBER, "", -1),
    (ErrorCode.ILLEGAL_GENERATION, Next.RESET_GENERATION, "me", -1),
    (ErrorCode.GROUP_MAX_SIZE_REACHED, Next.FAIL, "me", 1),
    (ErrorCode.FENCED_INSTANCE_ID, Next.FAIL, "me", 1),
    (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Next.FAIL, "me", 1),
]


@pytest.mark.parametrize(("code", "follows", "member_id", "generation"), JOIN_ERRORS)
def test_next_step_after_a_failed_join(code: ErrorCode, follows: Next, member_id: str, generation: int) -> None:
    again = joined()
    again.request_rejoin("because")
    assert again.join_request(["a"], ()).reason == "because"
    assert again.on_join(JoinGroupResponse(error_code=code)) is follows
    assert (again.member_id, again.generation, again.needs_rejoin) == (member_id, generation, True)
    assert again.join_request(["a"], ()).reason == f"rebalance failed due to {code.name}"


def test_a_failed_sync_joins_again_in_the_same_generation() -> None:
    syncing = member()
    syncing.join_request(["a"], ())
    syncing.on_join(join_response(syncing))
    response = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert syncing.on_sync(response) == (Next.REJOIN, frozenset())
    assert (syncing.member_id, syncing.generation, syncing.needs_rejoin) == ("me", 1, True)


HEARTBEAT_ERRORS = [
    (ErrorCode.REBALANCE_IN_PROGRESS, Next.REJOIN, State.STABLE, 1),
    (ErrorCode.ILLEGAL_GENERATION, Next.RESET_GENERATION, State.UNJOINED, -1),
    (ErrorCode.UNKNOWN_MEMBER_ID, Next.RESET_MEMBER, State.UNJOINED, -1),
    (ErrorCode.FENCED_INSTANCE_ID, Next.FAIL, State.STABLE, 1),
    (ErrorCode.NOT_COORDINATOR, Next.FIND_COORDINATOR, State.STABLE, 1),
]


@pytest.mark.parametrize(("code", "follows", "state", "generation"), HEARTBEAT_ERRORS)
def test_next_step_after_a_heartbeat(code: ErrorCode, follows: Next, state: State, generation: int) -> None:
    beating = joined()
    assert beating.on_heartbeat(beating.heartbeat_request(), code) is follows
    assert (beating.state, beating.generation) == (state, generation)


def test_a_heartbeat_of_an_earlier_generation_means_nothing() -> None:
    beating = joined()
    request = beating.heartbeat_request()
    beating.join_request(["a"], ())
    assert beating.on_heartbeat(request, ErrorCode.REBALANCE_IN_PROGRESS) is Next.GO_ON
    beating.on_join(join_response(beating, generation_id=2))
    beating.on_sync(SyncGroupResponse(assignment=assignment_bytes([])))
    assert beating.on_heartbeat(request, ErrorCode.ILLEGAL_GENERATION) is Next.GO_ON
    assert beating.generation == 2


REFUSALS = [
    (ErrorCode.UNKNOWN_MEMBER_ID, True, State.UNJOINED),
    (ErrorCode.ILLEGAL_GENERATION, True, State.UNJOINED),
    (ErrorCode.REBALANCE_IN_PROGRESS, False, State.STABLE),
]


@pytest.mark.parametrize(("code", "is_over", "state"), REFUSALS)
def test_next_step_after_a_refused_commit(code: ErrorCode, *, is_over: bool, state: State) -> None:
    committing = joined()
    assert committing.on_commit_refused(1, code) is is_over
    assert (committing.state, committing.needs_rejoin) == (state, True)


def test_a_commit_that_a_rebalance_has_overtaken_does_not_end_the_membership() -> None:
    committing = joined()
    committing.join_request(["a"], ())
    assert not committing.on_commit_refused(1, ErrorCode.ILLEGAL_GENERATION)
    committing.on_join(join_response(committing, generation_id=2))
    committing.on_sync(SyncGroupResponse(assignment=assignment_bytes([])))
    assert not committing.on_commit_refused(1, ErrorCode.ILLEGAL_GENERATION)
    assert (committing.state, committing.generation) == (State.STABLE, 2)


def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    assert joined().prepare([A0], ["a"]) == Preparation(frozenset(), is_lost=False)


def test_a_cooperative_member_gives_up_topics_that_it_no_longer_reads_kip_429() -> None:
    other = TopicPartition("b", 0)
    assert joined(COOPERATIVE).prepare([A0, other], ["a"]) == Preparation(frozenset({A0}), is_lost=False)


@pytest.mark.parametrize("assignors", [ONE, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_member_that_was_removed_has_lost_everything(assignors: list[Assignor]) -> None:
    removed = joined(assignors)
    removed.on_heartbeat(removed.heartbeat_request(), ErrorCode.UNKNOWN_MEMBER_ID)
    assert removed.prepare([A0], ["a"]) == Preparation(frozenset(), is_lost=True)


def test_members_with_an_eager_and_a_cooperative_assignor_are_eager() -> None:
    assert not member([RangeAssignor(), CooperativeStickyAssignor()]).settings.is_cooperative
    assert member(COOPERATIVE).settings.is_cooperative


def test_a_member_that_leaves_during_a_join_does_not_come_back_by_it() -> None:
    leaving = member()
    leaving.join_request(["a"], ())
    leaving.leave_request("enough")
    assert leaving.on_join(join_response(leaving)) is Next.REJOIN
    assert leaving.state is State.UNJOINED


def test_static_members_do_not_say_that_they_leave_kip_345() -> None:
    assert joined(instance_id="one").leave_request("enough") is None


def test_reasons_are_cut_as_java_cuts_them_kip_800() -> None:
    request = joined().leave_request("x" * 300)
    assert request is not None
    assert request.members[0].reason == "x" * 255


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"\0\3\xff\xff\xff\xff", b"\0\1\x7f\xff\xff\xff"])
def test_a_member_whose_subscription_cannot_be_read_is_named(metadata: bytes) -> None:
    leader = member()
    leader.join_request(["a"], ())
    members = [JoinGroupResponseMember(member_id="odd", metadata=metadata)]
    with pytest.raises(AssignmentError, match="member odd"):
        leader.on_join(join_response(leader, leader="me", members=members))


@pytest.mark.parametrize("assignment", [b"", b"\0", b"\0\0\x7f\xff\xff\xff"])
def test_an_assignment_that_cannot_be_read_is_an_error(assignment: bytes) -> None:
    syncing = member()
    syncing.join_request(["a"], ())
    syncing.on_join(join_response(syncing))
    with pytest.raises(AssignmentError):
        syncing.on_sync(SyncGroupResponse(assignment=assignment))


def test_a_protocol_that_was_not_offered_is_an_error() -> None:
    leader = member([RoundRobinAssignor()])
    metadata = leader.join_request(["a"], ()).protocols[0].metadata
    members = [JoinGroupResponseMember(member_id="me", metadata=metadata)]
    leader.on_join(join_response(leader, leader="me", members=members, protocol_name="sticky"))
    with pytest.raises(AssignmentError, match="sticky"):
        leader.sync_request({"a": [frozenset()]})
