"""What rules of consumer groups look at of a shard's state, and what they know it by."""

from collections.abc import Collection, Hashable
from typing import Protocol, TypeVar

from broker.coordinator.group.config import ConsumerGroupConfig, GroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.member_update import Surroundings
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.coordinator.group.group_kind import Group
from broker.coordinator.runtime.decision import CoordinatorError, Decision
from broker.coordinator.runtime.shard import ShardContext
from broker.wire.errors import ErrorCode

T = TypeVar("T")


class ConsumerGroupsHolder(Protocol):
    """`topics_version` is the version of the metadata in which topics came last."""

    context: ShardContext
    config: GroupConfig
    groups: dict[str, Group]
    topics_version: int
    topic_matcher: TopicMatcher

    def downgrade(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], response: T, now_ms: int
    ) -> Decision[T] | None:
        """Makes the group a classic one with these members; None if it is to remain a consumer group (KIP-848)."""
        ...


def surroundings(state: ConsumerGroupsHolder, now_ms: int) -> Surroundings:
    return Surroundings(
        image=state.context.image,
        config=state.config.consumer,
        topics_version=state.topics_version,
        now_ms=now_ms,
        matcher=state.topic_matcher,
    )


def config_of(state: ConsumerGroupsHolder, group_id: str) -> ConsumerGroupConfig:
    """What is in force for this group now: what was set for it, else the broker's."""
    return state.config.consumer.of_group(state.context.image.configs.group(group_id))


def consumer_group(state: ConsumerGroupsHolder, group_id: str) -> ConsumerGroup:
    """Raises CoordinatorError where there is none under this id."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, what)


def session_key(group_id: str, member_id: str) -> Hashable:
    """Of the timer that ends a member's session."""
    return "consumer-session", group_id, member_id


def revocation_key(group_id: str, member_id: str) -> Hashable:
    """Of the timer that ends the waiting for a member to give partitions up."""
    return "consumer-revocation", group_id, member_id


def join_key(group_id: str, member_id: str) -> Hashable:
    """Of the timer that ends the waiting for a member of the classic protocol to join again."""
    return "consumer-join", group_id, member_id


def sync_key(group_id: str, member_id: str) -> Hashable:
    """Of the timer that ends the waiting for a member of the classic protocol to fetch its assignment."""
    return "consumer-sync", group_id, member_id


def offer_key(group_id: str, member_id: str) -> Hashable:
    """Of the timer that ends the waiting for somebody to join with an id that it was offered."""
    return "consumer-offer", group_id, member_id


def cancel_timers(state: ConsumerGroupsHolder, group_id: str, member_id: str) -> None:
    """Nothing is expected of this member any more."""
    for key in (session_key, revocation_key, join_key, sync_key):
        state.context.timers.cancel(key(group_id, member_id))
