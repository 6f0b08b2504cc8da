"""The offsets that groups have committed, and those that open transactions may yet commit."""

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
    """`record_offset` is where in the log it was committed. A tuple, since there may be a million of them.

    `expire_timestamp_ms` is -1, but for who asked for a retention time; `topic_id` is all zero where nobody said it.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int


class CommittedPartition(NamedTuple):
    """Where an offset belongs."""

    group_id: str
    topic: str
    partition: int


TopicOffsets: TypeAlias = dict[int, OffsetAndMetadata]
GroupOffsets: TypeAlias = dict[str, TopicOffsets]


class Offsets:
    """Changes by replaying records, and by nothing else."""

    def __init__(self) -> None:
        self._committed: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[CommittedPartition, OffsetAndMetadata]] = {}
        # Many offsets name the same few topics: one object stands for each id.
        self._topic_ids: dict[bytes, bytes] = {ZERO_UUID: ZERO_UUID}
        self.last_record_offset = -1

    def __len__(self) -> int:
        """How many offsets are committed; counted, so for tests and descriptions."""
        return sum(len(offsets) for topics in self._committed.values() for offsets in topics.values())

    # Looking at it

    def group_ids(self) -> list[str]:
        """The groups that have offsets, or may have some when a transaction ends."""
        ids = dict.fromkeys(self._committed)
        ids.update(dict.fromkeys(place.group_id for pending in self._pending.values() for place in pending))
        return list(ids)

    def has_group(self, group_id: str) -> bool:
        """Whether the group is among `group_ids`."""
        return group_id in self._committed or self.has_open_transactions(group_id)

    def of_group(self, group_id: str) -> GroupOffsets:
        """What the group has committed, by topic and partition; to be looked at only."""
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """What the group has committed for the partition."""
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may replace this offset."""
        place = CommittedPartition(group_id, topic, partition)
        return any(place in pending for pending in self._pending.values())

    def has_open_transactions(self, group_id: str) -> bool:
        """Whether any offset of the group is pending."""
        return any(place.group_id == group_id for pending in self._pending.values() for place in pending)

    def places(self, group_id: str) -> list[CommittedPartition]:
        """All that the group has committed or may commit when a transaction ends, each once."""
        places = dict.fromkeys(
            CommittedPartition(group_id, topic, partition)
            for topic, offsets in self.of_group(group_id).items()
            for partition in offsets
        )
        for pending in self._pending.values():
            places.update((place, None) for place in pending if place.group_id == group_id)
        return list(places)

    def topics(self) -> list[str]:
        """The topics for which anything is committed or pending, by name."""
        names = dict.fromkeys(topic for topics in self._committed.values() for topic in topics)
        names.update(dict.fromkeys(place.topic for pending in self._pending.values() for place in pending))
        return list(names)

    def of_topic(self, topic: str, until_record_offset: int) -> Iterator[CommittedPartition]:
        """What groups have for a topic, in records up to that one."""
        for group_id, topics in self._committed.items():
            for partition, committed in topics.get(topic, {}).items():
                if committed.record_offset <= until_record_offset:
                    yield CommittedPartition(group_id, topic, partition)
        for pending in self._pending.values():
            for place, committed in pending.items():
                if place.topic == topic and committed.record_offset <= until_record_offset and self.get(*place) is None:
                    yield place

    # Replaying

    def replay(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        record_offset: int,
        producer_id: int = _NO_PRODUCER_ID,
    ) -> None:
        """Take over a record; one of a transaction counts when that is committed."""
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
        """What is pending of the producer is committed, or never was.

        What was committed since by others stays: the log is compacted by the order of its records.
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
    offsets: Offsets
    deleted_topics: dict[str, int]


def offset_tombstone(place: CommittedPartition) -> CoordinatorRecord:
    """The record that removes an offset."""
    return CoordinatorRecord(
        encode_key(OffsetCommitKey(group=place.group_id, topic=place.topic, partition=place.partition)), None
    )
