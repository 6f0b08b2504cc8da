"""The state machine of a member of a share group (KIP-932)."""

import pytest

from broker.client.consumer.group.consumer.membership import Next
from broker.client.share_consumer.membership import ShareMembership, State
from broker.wire.api.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from broker.wire.errors import ErrorCode

TOPIC = b"t" * 16


def joined() -> ShareMembership:
    member = ShareMembership("g", "m", "rack", ("a",))
    member.join()
    request = member.heartbeat_request()
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (0, "rack", ["a"])
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[0, 1])])
    response = ShareGroupHeartbeatResponse(member_id="m", member_epoch=3, assignment=assignment)
    assert member.on_heartbeat(request, response) is Next.GO_ON
    return member


def test_a_response_assigns_at_once_and_later_heartbeats_have_only_changes() -> None:
    member = joined()
    assert member.target == {(TOPIC, 0), (TOPIC, 1)}
    request = member.heartbeat_request()
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (3, None, None)
    member.on_heartbeat(request, ShareGroupHeartbeatResponse(member_epoch=4))
    assert member.target == {(TOPIC, 0), (TOPIC, 1)}
    member.topics = ("b",)
    assert member.is_heartbeat_urgent
    assert member.heartbeat_request().subscribed_topic_names == ["b"]
    assert not member.is_heartbeat_urgent


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_assignment_and_joins_again(code: ErrorCode) -> None:
    member = joined()
    request = member.heartbeat_request()
    assert member.on_heartbeat(request, ShareGroupHeartbeatResponse(error_code=code)) is Next.REJOIN
    assert (member.target, member.state) == (None, State.JOINING)
    again = member.heartbeat_request()
    assert (again.member_epoch, again.subscribed_topic_names) == (0, ["a"])


def test_a_heartbeat_without_an_answer_is_repeated_with_everything() -> None:
    member = joined()
    member.on_heartbeat_lost()
    assert member.heartbeat_request().subscribed_topic_names == ["a"]


def test_a_late_answer_means_nothing_after_the_member_has_left() -> None:
    member = joined()
    request = member.heartbeat_request()
    leave = member.leave_request()
    assert leave is not None
    assert leave.member_epoch == -1
    assert member.on_heartbeat(request, ShareGroupHeartbeatResponse(member_epoch=5)) is Next.GO_ON
    assert (member.state, member.target, member.leave_request()) == (State.UNJOINED, None, None)
