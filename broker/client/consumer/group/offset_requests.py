"""Builds OffsetCommit and OffsetFetch requests of one group, and reads their responses. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from broker.client.consumer.group.identity import GroupMetadata
from broker.client.types import OffsetAndMetadata, TopicPartition
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from broker.wire.errors import ErrorCode, KafkaError

# From version 10 on topics are named by their ids, which a client does not know of every topic that it may commit.
VERSION_BY_NAME_MAX: Final = 9
STATIC_COMMITS_SINCE: Final = 7
_GROUPS_SINCE: Final = 8
_NO_OFFSET: Final = -1


def commit_request(who: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, index), offset in sorted(offsets.items(), key=lambda item: item[0]):
        topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        topics=list(topics.values()),
    )


def commit_failure(response: OffsetCommitResponse) -> KafkaError | None:
    """Returns the first partition's error. An error of the whole group is reported for every partition."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code != ErrorCode.NONE:
                return _error(partition.error_code, f"{topic.name}-{partition.partition_index}")
    return None


def fetch_request(who: GroupMetadata, partitions: Collection[TopicPartition], version: int) -> OffsetFetchRequest:
    """Asks for stable offsets only: none that an open transaction may replace (KIP-447)."""
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        indexes.setdefault(topic, []).append(index)
    if version < _GROUPS_SINCE:
        asked = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in indexes.items()]
        return OffsetFetchRequest(group_id=who.group_id, topics=asked, require_stable=True)
    group = OffsetFetchRequestGroup(
        group_id=who.group_id,
        member_id=who.member_id or None,
        member_epoch=who.generation_id,
        topics=[OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in indexes.items()],
    )
    return OffsetFetchRequest(groups=[group], require_stable=True)


def fetched_offsets(
    response: OffsetFetchResponse, partitions: Iterable[TopicPartition], version: int
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The committed offset of each partition, None where there is none. Raises KafkaError."""
    found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
    groups = [response] if version < _GROUPS_SINCE else response.groups
    for group in groups:
        if group.error_code != ErrorCode.NONE:
            raise _error(group.error_code, "the committed offsets of the group")
        for topic in group.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    raise _error(each.error_code, f"{topic.name}-{each.partition_index}")
                if each.committed_offset > _NO_OFFSET:
                    epoch = each.committed_leader_epoch
                    offset = OffsetAndMetadata(each.committed_offset, None if epoch < 0 else epoch, each.metadata or "")
                    found[TopicPartition(topic.name, each.partition_index)] = offset
    return found


def _error(code: int, subject: str) -> KafkaError:
    return KafkaError(ErrorCode.of(code), subject)
