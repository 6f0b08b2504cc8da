"""The group coordinator's state of one partition of `__consumer_offsets`."""

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
from broker.coordinator.group.offsets.committed_offsets import CommittedOffsets
from broker.coordinator.group.offsets.expiration import (
    DELETED_TOPICS,
    remove_offsets_of_deleted_topics,
    schedule_expiration,
)
from broker.coordinator.group.record_formats import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    UnknownCoordinatorRecordType,
    decode_key,
    decode_value,
)
from broker.coordinator.group.share.kind import SHARE_GROUPS
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.shard import ShardContext
from broker.wire.errors import WireError
from metadata.image import MetadataDelta, MetadataImage

T = TypeVar("T")

# The key in `skipped_records` for records that cannot be decoded; real types are not negative.
UNREADABLE: Final = -1

KINDS: Final[tuple[GroupKind, ...]] = (CLASSIC_GROUPS, CONSUMER_GROUPS, SHARE_GROUPS)
_REPLAY: Final = {key: replay for kind in KINDS for key, replay in kind.replay.items()}


class GroupCoordinatorShard:
    """The groups of one shard, and their offsets; see `CoordinatorShard` for how it changes.

    A simple group, which has offsets and never had members, is not in `groups`.

    `skipped_records` counts records that could not be replayed, by their type. `deleted_topics` maps the names of
    deleted topics, whose offsets have yet to be removed, to the last record that can hold one. `topics_version` is the
    version of the metadata in which topics were created last.
    """

    def __init__(self, context: ShardContext, config: GroupConfig) -> None:
        self.context = context
        self.config = config
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets()
        self.skipped_records: dict[int, int] = {}
        self.deleted_topics: dict[str, int] = {}
        self.topics_version = -1
        self.topic_matcher = TopicMatcher()

    # Replay

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int = -1) -> None:
        """See `CoordinatorShard.replay`. A record that cannot be decoded is skipped as well."""
        try:
            decoded = decode_key(key)
            contents = None if value is None else decode_value(decoded, value)
        except UnknownCoordinatorRecordType as unknown:
            self.skipped_records[unknown.number] = self.skipped_records.get(unknown.number, 0) + 1
        except WireError:
            self.skipped_records[UNREADABLE] = self.skipped_records.get(UNREADABLE, 0) + 1
        else:
            if isinstance(decoded, OffsetCommitKey | LegacyOffsetCommitKey):
                self.offsets.replay(decoded, contents, offset, producer_id)
            else:
                _REPLAY[type(decoded)](self.groups, decoded, contents)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """See `CoordinatorShard.replay_end_transaction`."""
        self.offsets.replay_end_transaction(producer_id, committed=committed)

    # Leadership and metadata

    def loaded(self, now_ms: int) -> None:
        """See `CoordinatorShard.loaded`.

        A topic with offsets that this broker does not know was deleted before the shard was loaded. It cannot be a new
        topic: the former coordinator accepted offsets only for topics that it knew, and this broker's metadata is not
        older.
        """
        known = self.context.image.topics.by_name
        self._topics_deleted([topic for topic in self.offsets.topics() if topic not in known])
        schedule_expiration(self)
        for kind in KINDS:
            kind.on_loaded(self, now_ms)

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `CoordinatorShard.metadata_changed`. The offsets of deleted topics are removed in a turn of their own."""
        for kind in KINDS:
            if kind.on_metadata_change is not None:
                kind.on_metadata_change(self, delta, image)
        self._topics_deleted([topic.name for topic in delta.topics.deleted.values()])

    def _topics_deleted(self, names: list[str]) -> None:
        if names:
            self.deleted_topics.update(dict.fromkeys(names, self.offsets.last_record_offset))
            self.context.timers.schedule(DELETED_TOPICS, 0, remove_offsets_of_deleted_topics)

    def is_simple(self, group_id: str) -> bool:
        """See `ConsumerGroupShard.is_simple`."""
        return group_id not in self.groups and self.offsets.has_group(group_id)

    def downgrade(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], response: T, now_ms: int
    ) -> Decision[T] | None:
        """See `ConsumerGroupShard.downgrade`."""
        return downgrade(self, group, members, response, now_ms)
