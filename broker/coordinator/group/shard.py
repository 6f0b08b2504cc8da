"""What a group coordinator keeps of one partition of `__consumer_offsets`."""

from collections.abc import Collection
from typing import Final, TypeVar

from broker.coordinator.group.classic.kind import CLASSIC_GROUPS
from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.kind import CONSUMER_GROUPS
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.topic_matching import TopicMatcher
from broker.coordinator.group.group_kind import Group, GroupKind
from broker.coordinator.group.mixed.downgrade import downgrade
from broker.coordinator.group.offsets.committed_offsets import Offsets
from broker.coordinator.group.offsets.expiration import DELETED_TOPICS, forget_deleted_topics, schedule_expiration
from broker.coordinator.group.record_formats import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    UnknownRecordType,
    decode_key,
    decode_value,
)
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.shard import ShardContext
from broker.wire.errors import WireError
from metadata.image import MetadataDelta, MetadataImage

T = TypeVar("T")

# Types below 0 do not exist: records that are none at all are counted under this.
UNREADABLE: Final = -1

KINDS: Final[tuple[GroupKind, ...]] = (CLASSIC_GROUPS, CONSUMER_GROUPS)
_REPLAY: Final = {key: replay for kind in KINDS for key, replay in kind.replay.items()}


class GroupsState:
    """The groups of one shard, and their offsets; see `Shard` for how it changes.

    A group whose offsets are all there is of it, a simple one, is not among `groups`.

    `left_alone` counts records that could not be taken over, by their type. `deleted_topics` are those whose offsets
    are yet to be removed, up to which record each. `topics_version` is that of the metadata in which topics came last.
    """

    def __init__(self, context: ShardContext, config: GroupConfig) -> None:
        self.context = context
        self.config = config
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.left_alone: dict[int, int] = {}
        self.deleted_topics: dict[str, int] = {}
        self.topics_version = -1
        self.topic_matcher = TopicMatcher()

    # Replaying

    def replay(
        self,
        key: bytes,
        value: bytes | None,
        offset: int,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        """See `Shard.replay`. A record that cannot be read is left alone as well."""
        try:
            decoded = decode_key(key)
            contents = None if value is None else decode_value(decoded, value)
        except UnknownRecordType as unknown:
            self.left_alone[unknown.number] = self.left_alone.get(unknown.number, 0) + 1
        except WireError:
            self.left_alone[UNREADABLE] = self.left_alone.get(UNREADABLE, 0) + 1
        else:
            if isinstance(decoded, OffsetCommitKey | LegacyOffsetCommitKey):
                self.offsets.replay(decoded, contents, offset, producer_id)
            else:
                _REPLAY[type(decoded)](self.groups, decoded, contents)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """See `Shard.replay_end_transaction`."""
        self.offsets.replay_end_transaction(producer_id, committed=committed)

    # Coming to life

    def loaded(self, now_ms: int) -> None:
        """See `Shard.loaded`.

        Whoever coordinated before knew each topic that it accepted offsets for, and by the time that another leads, its
        metadata has told of them too. So a topic that is not known here was deleted, and nobody has heard of that.
        """
        known = self.context.image.topics.by_name
        self._topics_gone([topic for topic in self.offsets.topics() if topic not in known])
        schedule_expiration(self)
        for kind in KINDS:
            kind.on_loaded(self, now_ms)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Shard.metadata_changed`. Offsets for topics that are gone are removed in a turn of their own."""
        for kind in KINDS:
            if kind.on_metadata_change is not None:
                kind.on_metadata_change(self, delta, image)
        self._topics_gone([topic.name for topic in delta.topics.deleted.values()])

    def _topics_gone(self, names: list[str]) -> None:
        if names:
            self.deleted_topics.update(dict.fromkeys(names, self.offsets.last_record_offset))
            self.context.timers.schedule(DELETED_TOPICS, 0, forget_deleted_topics)

    def downgrade(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], response: T, now_ms: int
    ) -> Decision[T] | None:
        """See `ConsumerGroupShard.downgrade`."""
        return downgrade(self, group, members, response, now_ms)
