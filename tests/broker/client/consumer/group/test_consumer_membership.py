"""A member of a group of the consumer protocol (KIP-848), by example."""

from typing import Any

import pytest

from broker.client.consumer.group.consumer.membership import (
    ConsumerMembership,
    ConsumerSettings,
    Next,
    Partitions,
    State,
    Subscription,
)
from broker.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode

A, B = b"a" * 16, b"b" * 16


def member(instance_id: str | None = None, subscription: Subscription | None = None) -> ConsumerMembership:
    settings = ConsumerSettings(
        group_id="g", instance_id=instance_id, rack="r1", rebalance_timeout_ms=300_000, assignor="uniform"
    )
    return ConsumerMembership(settings, "me", subscription or Subscription(topics=("a",)))


def response(epoch: int, **topics: list[int]) -> ConsumerGroupHeartbeatResponse:
    """A response, with a target assignment if topics are given."""
    target = [TopicPartitions(topic_id=name.encode() * 16, partitions=each) for name, each in topics.items()]
    assignment = Assignment(topic_partitions=target) if topics else None
    return ConsumerGroupHeartbeatResponse(
        member_id="me", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assignment
    )


def beat(member: ConsumerMembership, answer: ConsumerGroupHeartbeatResponse) -> Any:
    """Send one heartbeat and apply the answer. Returns the request."""
    request = member.heartbeat_request()
    assert member.on_heartbeat(request, answer) is Next.GO_ON
    return request


def stable(owned: Partitions = frozenset({(A, 0), (A, 1)}), **fields: Any) -> ConsumerMembership:
    """A member of epoch 1 that has acknowledged its partitions."""
    joined = member(**fields)
    joined.join()
    beat(joined, response(1, a=[index for _, index in sorted(owned)]))
    joined.reconciled(owned)
    beat(joined, response(1))
    assert joined.state is State.STABLE
    return joined


def test_the_first_heartbeat_has_all_fields_and_later_ones_only_changes() -> None:
    joining = member()
    joining.join()
    assert joining.is_heartbeat_urgent
    first = beat(joining, response(1, a=[0]))
    assert (first.member_epoch, first.rack_id, first.rebalance_timeout_ms) == (0, "r1", 300_000)
    assert (first.server_assignor, first.subscribed_topic_names, first.topic_partitions) == ("uniform", ["a"], [])
    second = beat(joining, response(1))
    assert (second.member_epoch, second.rack_id, second.rebalance_timeout_ms) == (1, None, -1)
    assert (second.server_assignor, second.subscribed_topic_names, second.topic_partitions) == (None, None, None)


def test_a_reconciled_assignment_is_acknowledged_once_and_immediately() -> None:
    joining = member()
    joining.join()
    beat(joining, response(1, a=[0, 1]))
    assert (joining.state, joining.is_heartbeat_urgent) == (State.RECONCILING, False)
    joining.reconciled(frozenset({(A, 0), (A, 1)}))
    assert joining.is_heartbeat_urgent
    acknowledgement = beat(joining, response(2))
    assert [(each.topic_id, each.partitions) for each in acknowledgement.topic_partitions] == [(A, [0, 1])]
    assert (joining.state, joining.epoch, joining.is_heartbeat_urgent) == (State.STABLE, 2, False)
    assert joining.heartbeat_request().topic_partitions is None


def test_a_target_that_changes_during_a_reconciliation_is_next() -> None:
    moving = stable()
    beat(moving, response(2, a=[0]))
    beat(moving, response(2, b=[0]))
    moving.reconciled(frozenset({(A, 0)}))
    beat(moving, response(2))
    assert (moving.state, moving.target) == (State.RECONCILING, frozenset({(B, 0)}))


def test_a_target_that_is_owned_already_needs_no_reconciliation() -> None:
    settled = stable()
    beat(settled, response(2, a=[0, 1]))
    assert settled.state is State.STABLE


def test_a_lost_heartbeat_is_said_again_in_full() -> None:
    settled = stable()
    settled.reconciled(frozenset({(A, 0)}))
    settled.heartbeat_request()
    settled.on_heartbeat_lost()
    again = settled.heartbeat_request()
    assert (again.member_epoch, again.subscribed_topic_names, again.rebalance_timeout_ms) == (1, ["a"], 300_000)
    assert [each.partitions for each in again.topic_partitions or []] == [[0]]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_releases_everything_and_joins_again(code: ErrorCode) -> None:
    fenced = stable()
    follows = fenced.on_heartbeat(fenced.heartbeat_request(), ConsumerGroupHeartbeatResponse(error_code=code))
    assert (follows, fenced.state, fenced.is_member, fenced.owned) == (Next.REJOIN, State.UNJOINED, False, frozenset())
    fenced.join()
    request = fenced.heartbeat_request()
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("me", 0, [])


ERRORS = [
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.RETRY),
    (ErrorCode.NOT_COORDINATOR, Next.FIND_COORDINATOR),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.FIND_COORDINATOR),
    (ErrorCode.UNRELEASED_INSTANCE_ID, Next.FAIL),
    (ErrorCode.UNSUPPORTED_ASSIGNOR, Next.FAIL),
    (ErrorCode.GROUP_MAX_SIZE_REACHED, Next.FAIL),
    (ErrorCode.INVALID_REGULAR_EXPRESSION, Next.FAIL),
]


@pytest.mark.parametrize(("code", "follows"), ERRORS)
def test_next_step_after_a_failed_heartbeat(code: ErrorCode, follows: Next) -> None:
    beating = stable()
    answer = ConsumerGroupHeartbeatResponse(error_code=code)
    assert beating.on_heartbeat(beating.heartbeat_request(), answer) is follows
    assert (beating.epoch, beating.owned) == (1, frozenset({(A, 0), (A, 1)}))


def test_the_response_to_a_heartbeat_of_an_earlier_epoch_means_nothing() -> None:
    beating = stable()
    request = beating.heartbeat_request()
    beating.fence()
    beating.join()
    assert beating.on_heartbeat(request, response(9, b=[0])) is Next.GO_ON
    assert (beating.state, beating.epoch, beating.target) == (State.JOINING, 0, None)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_a_static_member_leaves_for_a_while_and_others_for_good_kip_848(instance_id: str | None, epoch: int) -> None:
    leaving = stable(instance_id=instance_id)
    request = leaving.leave_request()
    assert request is not None
    assert (request.member_id, request.member_epoch, request.instance_id) == ("me", epoch, instance_id)
    assert leaving.leave_request() is None


def test_another_subscription_is_said_at_once() -> None:
    settled = stable()
    settled.subscription = Subscription(regex="b.*")
    assert settled.is_heartbeat_urgent
    request = beat(settled, response(1))
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "b.*")
    settled.subscription = Subscription(topics=("a",))
    request = beat(settled, response(1))
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["a"], "")


def test_names_alone_say_nothing_of_regular_expressions() -> None:
    joining = member()
    joining.join()
    assert joining.heartbeat_request().subscribed_topic_regex is None
