"""The part of the shard that consumer groups need, lookups in it, and the keys of timers."""

from collections.abc import Callable, Collection, Hashable
from typing import Protocol, TypeVar

from broker.coordinator.group.config import ConsumerGroupConfig, GroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.member_update import DecisionContext
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.coordinator.group.group_kind import Group
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.shard import ShardContext
from broker.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")


class ConsumerGroupShard(Protocol):
    """The part of a shard that consumer groups need.

    `topics_version` is the version of the metadata in which topics were created last.
    """

    context: ShardContext
    config: GroupConfig
    groups: dict[str, Group]
    topics_version: int
    topic_matcher: TopicMatcher

    def is_simple(self, group_id: str) -> bool:
        """True if the group has offsets, and neither members nor metadata."""
        ...

    def downgrade(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], response: T, now_ms: int
    ) -> Decision[T] | None:
        """Makes the group a classic one with these members; None if it is to remain a consumer group (KIP-848)."""
        ...


def decision_context(
    state: ConsumerGroupShard, now_ms: int, topic_filter: Callable[[str], bool] | None = None
) -> DecisionContext:
    return DecisionContext(
        image=state.context.image,
        config=state.config.consumer,
        topics_version=state.topics_version,
        now_ms=now_ms,
        matcher=state.topic_matcher,
        topic_filter=topic_filter,
    )


def config_of(state: ConsumerGroupShard, group_id: str) -> ConsumerGroupConfig:
    """The configs in force for this group: its own where they are set, otherwise the broker's."""
    return state.config.consumer.of_group(state.context.image.configs.group(group_id))


def consumer_group(state: ConsumerGroupShard, group_id: str) -> ConsumerGroup:
    """The consumer group of this id. Raises KafkaError if there is none."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)


def session_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends a member's session."""
    return "consumer-session", group_id, member_id


def rebalance_timeout_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends the wait for a member to revoke partitions."""
    return "consumer-rebalance-timeout", group_id, member_id


def join_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends the wait for a classic member to join again."""
    return "consumer-join", group_id, member_id


def sync_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends the wait for a classic member to fetch its assignment."""
    return "consumer-sync", group_id, member_id


def pending_join_key(group_id: str, member_id: str) -> Hashable:
    """The key of the timer that ends the wait for a client to join with a member id that it was told."""
    return "consumer-pending-join", group_id, member_id


def cancel_timers(state: ConsumerGroupShard, group_id: str, member_id: str) -> None:
    """Cancels all timers of the member."""
    for key in (session_key, rebalance_timeout_key, join_key, sync_key):
        state.context.timers.cancel(key(group_id, member_id))
