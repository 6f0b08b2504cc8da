"""The assignment of a consumer, by the user or by its group."""

import pytest

from broker.client.consumer.errors import NotAssigned, OffsetOutOfRange
from broker.client.consumer.offset_reset import EARLIEST
from broker.client.consumer.positions import Position
from broker.client.consumer.subscription import SubscriptionState
from broker.client.errors import ClientError
from broker.client.types import OffsetAndMetadata, TopicPartition

A, B, C = (TopicPartition("topic", index) for index in range(3))


def assigned_to(*partitions: TopicPartition) -> SubscriptionState:
    state = SubscriptionState(EARLIEST)
    state.assign(partitions)
    return state


def test_partitions_that_stay_keep_their_positions() -> None:
    state = assigned_to(A, B)
    state.assigned(A).seek(Position(3))
    gone = state.assigned(B)
    state.assign([A, C])
    assert state.assignment() == {A, C}
    assert state.assigned(A).consumed == Position(3)
    assert not gone.is_assigned


def test_a_partition_that_comes_back_begins_anew() -> None:
    state = assigned_to(A)
    state.assigned(A).seek(Position(3))
    state.assign([B])
    state.assign([A])
    assert state.assigned(A).consumed is None


def test_a_partition_named_twice_is_assigned_once() -> None:
    state = assigned_to(A)
    state.assigned(A).seek(Position(3))
    state.assign([A, A])
    assert [each.consumed for each in state.partitions] == [Position(3)]


def test_an_unassigned_partition_is_an_error_that_names_it() -> None:
    with pytest.raises(NotAssigned, match="topic-1"):
        assigned_to(A).all_assigned([A, B])


def test_assign_and_subscribe_exclude_each_other() -> None:
    state = assigned_to(A)
    with pytest.raises(ClientError, match="unsubscribe"):
        state.subscribe()
    state.unsubscribe()
    state.subscribe()
    with pytest.raises(ClientError, match="unsubscribe"):
        state.assign([A])


def test_an_empty_assignment_makes_room_for_a_subscription() -> None:
    state = assigned_to(A)
    state.assign([])
    state.subscribe()


def test_a_group_replaces_its_assignment_and_ends_pending_revocations() -> None:
    state = SubscriptionState(EARLIEST)
    state.subscribe()
    state.assign_from_group([A, B])
    state.assigned(A).seek(Position(3))
    state.mark_pending_revocation([A, C])
    assert not state.assigned(A).is_returnable
    state.assign_from_group([A])
    assert state.assigned(A).is_returnable
    assert list(state.assigned_partitions()) == [A]


def test_late_news_of_a_group_does_not_touch_the_users_assignment() -> None:
    state = assigned_to(A)
    state.assign_from_group([B])
    assert state.assignment() == {A}
    assert list(state.assigned_partitions()) == []


def test_only_valid_positions_are_committed() -> None:
    state = assigned_to(A, B, C)
    state.assigned(A).seek(Position(3))
    state.assigned(B).seek(Position(5, 2))  # must be validated
    assert state.consumed_offsets() == {A: OffsetAndMetadata(3)}


def test_an_error_is_taken_once() -> None:
    state = assigned_to(A, B)
    error = OffsetOutOfRange(B, 7)
    state.assigned(B).error = error
    assert state.take_error() is error
    assert state.take_error() is None


def test_leaders_that_are_not_known_at_present_stay() -> None:
    state = assigned_to(A)
    state.update_leaders({A: (1, 5), B: (2, 1)})
    state.update_leaders({A: None})
    assert state.assigned(A).leader == (1, 5)


def test_partitions_take_turns() -> None:
    state = assigned_to(A, B, C)
    state.move_to_end(A)
    assert [each.partition for each in state.partitions] == [B, C, A]
