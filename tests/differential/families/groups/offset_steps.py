"""The requests about the committed offsets of groups."""

from typing import Any, Final

import attrs

from broker.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.differential.families.groups.classic_steps import MemberStep
from tests.differential.families.groups.members import GROUP, TOPICS, Epoch, Who, members_of
from tests.differential.sequences import Place, Step

Partitions = tuple[tuple[str, int], ...]

ALL: Final[Partitions] = tuple((topic, index) for topic, count in TOPICS.items() for index in range(count))
# The first versions with instance ids, with topic ids, with several groups, and with members.
_COMMIT_INSTANCES_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 10
_GROUPS_FROM: Final = 8
_MEMBERS_FROM: Final = 9
_STABLE_FROM: Final = 7
_ALL_TOPICS_FROM: Final = 2
_RETENTION_UNTIL: Final = 4
_UNKNOWN_TOPIC_ID: Final = b"absent".ljust(16, b".")


def _by_topic(partitions: Partitions) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def _topic_id(place: Place, suffix: str) -> bytes:
    return place.topic_ids.get(place.named(suffix), _UNKNOWN_TOPIC_ID)


@attrs.frozen(kw_only=True)
class Commit(MemberStep):
    offset: int
    partitions: Partitions
    epoch: Epoch = Epoch.OWN
    metadata: str | None = "m"

    def request(self, place: Place) -> tuple[Any, int]:
        message = OffsetCommitRequest(
            group_id=place.named(self.group),
            generation_id_or_member_epoch=members_of(place).epoch(self.member, self.epoch),
            member_id=self.member_id(place),
            group_instance_id=self.instance if self.version >= _COMMIT_INSTANCES_FROM else None,
            topics=[self._topic(place, suffix, indexes) for suffix, indexes in _by_topic(self.partitions).items()],
        )
        return message, self.version

    def _topic(self, place: Place, suffix: str, indexes: list[int]) -> OffsetCommitRequestTopic:
        topic = OffsetCommitRequestTopic(
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=self.offset, committed_metadata=self.metadata
                )
                for index in indexes
            ]
        )
        if self.version < _TOPIC_IDS_FROM:
            topic.name = place.named(suffix)
        else:
            topic.topic_id = _topic_id(place, suffix)
        return topic


@attrs.frozen(kw_only=True)
class FetchOffsets(MemberStep):
    """Without `partitions`, all offsets of the group."""

    partitions: Partitions | None = None
    epoch: Epoch = Epoch.NONE
    who: Who = Who.NONE
    require_stable: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        topics = None if self.partitions is None else _by_topic(self.partitions)
        message = OffsetFetchRequest(require_stable=self.require_stable and self.version >= _STABLE_FROM)
        if self.version < _GROUPS_FROM:
            message.group_id = place.named(self.group)
            if topics is None and self.version < _ALL_TOPICS_FROM:
                topics = _by_topic(ALL)
            message.topics = topics and [
                OffsetFetchRequestTopic(name=place.named(suffix), partition_indexes=indexes)
                for suffix, indexes in topics.items()
            ]
            return message, self.version
        group = OffsetFetchRequestGroup(group_id=place.named(self.group), topics=None)
        if topics is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=place.named(suffix), partition_indexes=indexes)
                if self.version < _TOPIC_IDS_FROM
                else OffsetFetchRequestTopics(topic_id=_topic_id(place, suffix), partition_indexes=indexes)
                for suffix, indexes in topics.items()
            ]
        if self.version >= _MEMBERS_FROM:
            group.member_id = self.member_id(place) or None
            group.member_epoch = members_of(place).epoch(self.member, self.epoch)
        message.groups = [group]
        return message, self.version


@attrs.frozen(kw_only=True)
class DeleteOffsets(Step):
    partitions: Partitions
    group: str = GROUP

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            OffsetDeleteRequestTopic(
                name=place.named(suffix),
                partitions=[OffsetDeleteRequestPartition(partition_index=at) for at in indexes],
            )
            for suffix, indexes in _by_topic(self.partitions).items()
        ]
        return OffsetDeleteRequest(group_id=place.named(self.group), topics=topics), 0
