"""Consumer groups as a kind of group: how their records are replayed, and how they follow metadata and leadership."""

from typing import Final

from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.leaving import start_rebalance_timeout, start_session
from broker.coordinator.group.consumer.member import MemberState
from broker.coordinator.group.consumer.replaying import REPLAY
from broker.coordinator.group.consumer.shard import ConsumerGroupShard
from broker.coordinator.group.group_kind import GroupKind
from metadata.image import MetadataDelta, MetadataImage


def _on_loaded(state: ConsumerGroupShard, now_ms: int) -> None:
    """Starts new sessions for all members, since only their former coordinator knows their last heartbeats."""
    state.topics_version = state.context.image.offset
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                start_session(state, group.group_id, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    start_rebalance_timeout(state, group.group_id, member)


def _on_metadata_change(state: ConsumerGroupShard, delta: MetadataDelta, image: MetadataImage) -> None:
    """Makes groups that are subscribed to a changed topic look at their topics with the next heartbeat."""
    changed, deleted = delta.topics.changed.values(), delta.topics.deleted.values()
    if any(topic.base is None for topic in changed):
        state.topics_version = image.offset
    names = [topic.name for topic in changed] + [topic.name for topic in deleted]
    if not names:
        return
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup) and any(group.is_subscribed_to(name) for name in names):
            group.refresh_at_ms = 0


CONSUMER_GROUPS: Final = GroupKind(replay=REPLAY, on_loaded=_on_loaded, on_metadata_change=_on_metadata_change)
