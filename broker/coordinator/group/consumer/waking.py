"""Consumer groups whose coordinator this broker has become, and what they are told of topics."""

from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.leaving import await_revocation, start_session
from broker.coordinator.group.consumer.member import MemberState
from broker.coordinator.group.consumer.shard import ConsumerGroupsHolder
from metadata.image import MetadataDelta, MetadataImage


def wake_consumer_groups(state: ConsumerGroupsHolder) -> None:
    """Begin the sessions of all members anew: their former coordinator heard of them last. Sets timers."""
    state.topics_version = state.context.image.offset
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                start_session(state, group.group_id, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    await_revocation(state, group.group_id, member)


def topics_changed(state: ConsumerGroupsHolder, delta: MetadataDelta, image: MetadataImage) -> None:
    """Have groups look at their topics again with the next heartbeat, where some of them have changed."""
    changed, deleted = delta.topics.changed.values(), delta.topics.deleted.values()
    if any(topic.base is None for topic in changed):
        state.topics_version = image.offset
    names = [topic.name for topic in changed] + [topic.name for topic in deleted]
    if not names:
        return
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup) and any(group.is_subscribed_to(name) for name in names):
            group.refresh_at_ms = 0
