"""The offsets that groups have committed, and the pending ones of open transactions."""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.group_kind import Group
from broker.coordinator.group.record_formats import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
)
from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.runtime.shard import ShardContext
from broker.wire.uuids import ZERO_UUID

_NO_PRODUCER_ID: Final = -1


class OffsetAndMetadata(NamedTuple):
    """A committed offset. A tuple, because there may be a million of them.

    `record_offset` is the offset of its record in the log. `expire_timestamp_ms` is -1 unless the client sent a
    retention time. `topic_id` is all zero if the client did not send it.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int


class CommittedPartition(NamedTuple):
    """The group and partition that an offset belongs to."""

    group_id: str
    topic: str
    partition: int


TopicOffsets: TypeAlias = dict[int, OffsetAndMetadata]
GroupOffsets: TypeAlias = dict[str, TopicOffsets]


class CommittedOffsets:
    """The offsets of a shard. They change only by replay."""

    def __init__(self) -> None:
        self._committed: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[CommittedPartition, OffsetAndMetadata]] = {}
        # Many offsets belong to the same few topics, so equal topic ids are one object.
        self._topic_ids: dict[bytes, bytes] = {ZERO_UUID: ZERO_UUID}
        self.last_record_offset = -1

    def __len__(self) -> int:
        """The number of committed offsets. It is counted with each call, so only for tests and descriptions."""
        return sum(len(offsets) for topics in self._committed.values() for offsets in topics.values())

    # Reads

    def group_ids(self) -> list[str]:
        """The groups that have offsets, committed or pending."""
        ids = dict.fromkeys(self._committed)
        ids.update(dict.fromkeys(place.group_id for pending in self._pending.values() for place in pending))
        return list(ids)

    def has_group(self, group_id: str) -> bool:
        """True if the group has offsets, committed or pending."""
        return group_id in self._committed or self.has_open_transactions(group_id)

    def of_group(self, group_id: str) -> GroupOffsets:
        """The group's committed offsets by topic and partition. Not to be changed."""
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """The group's committed offset of the partition."""
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """True if an open transaction may replace this offset."""
        place = CommittedPartition(group_id, topic, partition)
        return any(place in pending for pending in self._pending.values())

    def has_open_transactions(self, group_id: str) -> bool:
        """True if any offset of the group is pending."""
        return any(place.group_id == group_id for pending in self._pending.values() for place in pending)

    def partitions_of_group(self, group_id: str) -> list[CommittedPartition]:
        """All partitions for which the group has an offset, committed or pending."""
        places = dict.fromkeys(
            CommittedPartition(group_id, topic, partition)
            for topic, offsets in self.of_group(group_id).items()
            for partition in offsets
        )
        for pending in self._pending.values():
            places.update((place, None) for place in pending if place.group_id == group_id)
        return list(places)

    def topics(self) -> list[str]:
        """The names of the topics for which offsets are committed or pending."""
        names = dict.fromkeys(topic for topics in self._committed.values() for topic in topics)
        names.update(dict.fromkeys(place.topic for pending in self._pending.values() for place in pending))
        return list(names)

    def of_topic(self, topic: str, until_record_offset: int) -> Iterator[CommittedPartition]:
        """All offsets for the topic, of any group, whose records are not after `until_record_offset`."""
        for group_id, topics in self._committed.items():
            for partition, committed in topics.get(topic, {}).items():
                if committed.record_offset <= until_record_offset:
                    yield CommittedPartition(group_id, topic, partition)
        for pending in self._pending.values():
            for place, committed in pending.items():
                if place.topic == topic and committed.record_offset <= until_record_offset and self.get(*place) is None:
                    yield place

    # Replay

    def replay(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        record_offset: int,
        producer_id: int = _NO_PRODUCER_ID,
    ) -> None:
        """Replays a record. An offset with a producer id is pending until the producer's transaction is committed."""
        self.last_record_offset = record_offset
        if value is None:
            self._forget(CommittedPartition(key.group, key.topic, key.partition))
            return
        committed = OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            self._topic_ids.setdefault(value.topic_id, value.topic_id),
            record_offset,
        )
        if producer_id == _NO_PRODUCER_ID:
            self._put(key.group, key.topic, key.partition, committed)
        else:
            place = CommittedPartition(key.group, key.topic, key.partition)
            self._pending.setdefault(producer_id, {})[place] = committed

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Commits the pending offsets of the producer, or drops them.

        An offset whose record is later in the log than a pending one stays, because compaction keeps the later record.
        """
        for place, offset in self._pending.pop(producer_id, {}).items():
            known = self.get(*place)
            if committed and (known is None or known.record_offset < offset.record_offset):
                self._put(*place, offset)

    def _put(self, group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> None:
        topics = self._committed.get(group_id)
        if topics is None:
            topics = self._committed[group_id] = {}
        offsets = topics.get(topic)
        if offsets is None:
            offsets = topics[topic] = {}
        offsets[partition] = committed

    def _forget(self, place: CommittedPartition) -> None:
        topics = self._committed.get(place.group_id, {})
        offsets = topics.get(place.topic, {})
        if offsets.pop(place.partition, None) is not None and not offsets:
            del topics[place.topic]
            if not topics:
                del self._committed[place.group_id]
        for producer_id, pending in list(self._pending.items()):
            if pending.pop(place, None) is not None and not pending:
                del self._pending[producer_id]


class OffsetsShard(Protocol):
    """The part of a shard that offsets need.

    `deleted_topics` maps the names of deleted topics to the last record that can hold an offset for them.
    """

    context: ShardContext
    config: GroupConfig
    groups: dict[str, Group]
    offsets: CommittedOffsets
    deleted_topics: dict[str, int]


def offset_tombstone(place: CommittedPartition) -> CoordinatorRecord:
    """The record that removes an offset."""
    return CoordinatorRecord(
        encode_key(OffsetCommitKey(group=place.group_id, topic=place.topic, partition=place.partition)), None
    )
