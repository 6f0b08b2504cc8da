"""The topics of a classic group: those that this member reads, and as the leader those that all members read."""

from collections.abc import Collection, Iterable

from broker.client.consumer.group.assignors.assignor import TopicRacks
from broker.client.consumer.group.context import MemberContext
from broker.client.consumer.group.subscribed_topics import SubscribedTopics
from broker.client.types import TopicPartition


class ClassicTopics:
    """Resolves the subscription before every join, and notices what changes afterwards.

    `names` are the topics of the last join. For the leader, `_group_topics` are the topics of all members, and
    `_assigned` is the metadata of these topics that the last assignment used.
    """

    def __init__(self, context: MemberContext, subscription: SubscribedTopics) -> None:
        self.subscription = subscription
        self.names: frozenset[str] = frozenset()
        self._context = context
        self._group_topics: Collection[str] = ()
        self._assigned: TopicRacks = {}
        self._has_resolved = False

    async def resolve(self) -> None:
        """Takes the topics to join with; those of a pattern from fresh metadata."""
        self._group_topics = ()
        if self.subscription.pattern is not None:
            self._context.cluster.follow_all()
            await self._context.refresh(None)
        else:
            self._context.cluster.follow_only(self.subscription.names)
            if self._unknown(self.subscription.names):
                await self._context.refresh(self.subscription.names)
        self.names = self._current()
        self._has_resolved = True

    async def racks(self, topics: Collection[str]) -> TopicRacks:
        """The partitions of these topics, as far as they exist, and the racks of their replicas."""
        self._context.cluster.follow_topics(topics)
        if self._unknown(topics):
            await self._context.refresh(topics)
        self._group_topics, self._assigned = topics, self._described(topics)
        return self._assigned

    def have_changed(self) -> bool:
        """True if this member reads other topics than it has joined with."""
        return self._has_resolved and self._current() != self.names

    def have_changed_for_group(self) -> bool:
        """True if topics have come or gone, or have other partitions, since this member assigned them.

        Other racks count where this member has one: a broker that is down has none, and would cause a rebalance.
        """
        if not self._group_topics:
            return False
        described = self._described(self._group_topics)
        if self._context.config.client_rack:
            return described != self._assigned
        return _counts(described) != _counts(self._assigned)

    def may_own(self, partitions: Iterable[TopicPartition]) -> bool:
        """False if one of them is of a topic that this member does not read any more."""
        if self.subscription.pattern is not None:
            return True  # the leader may know of topics that this member does not know yet
        return all(partition.topic in self.subscription.names for partition in partitions)

    def _current(self) -> frozenset[str]:
        config = self._context.config
        return self.subscription.resolve(
            self._context.cluster.metadata, exclude_internal=config.exclude_internal_topics
        )

    def _unknown(self, topics: Iterable[str]) -> bool:
        metadata = self._context.cluster.metadata
        return any((topic := metadata.topic(name)) is None or not topic.partitions for name in topics)

    def _described(self, topics: Iterable[str]) -> TopicRacks:
        metadata = self._context.cluster.metadata
        racks = {node.id: node.rack for node in metadata.brokers.values() if node.rack}
        return {
            name: [
                frozenset(racks[each] for each in partition.replicas if each in racks) for partition in topic.partitions
            ]
            for name in sorted(topics)
            if (topic := metadata.topic(name)) is not None and topic.partitions
        }


def _counts(topics: TopicRacks) -> dict[str, int]:
    return {name: len(partitions) for name, partitions in topics.items()}
