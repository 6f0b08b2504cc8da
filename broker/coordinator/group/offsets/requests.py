"""OffsetCommit, OffsetFetch and OffsetDelete, as a shard of groups decides them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.coordinator.group.group_kind import PartitionValidator
from broker.coordinator.group.offsets.committed_offsets import (
    CommittedPartition,
    OffsetAndMetadata,
    OffsetsShard,
    offset_tombstone,
)
from broker.coordinator.group.record_formats import (
    OFFSET_COMMIT_VALUE_WITH_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision, Producer
from broker.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID
from kraft import lazy_attrs

NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1
_DEFAULT_RETENTION: Final = -1
_NEVER: Final = -1
_TIMESTAMP_MAX: Final = 2**63 - 1
# OffsetCommit and TxnOffsetCommit may answer GROUP_ID_NOT_FOUND from these versions on (KIP-848, KIP-1319).
_GROUP_ID_NOT_FOUND_FROM: Final = 9
_TXN_GROUP_ID_NOT_FOUND_FROM: Final = 6


class OffsetToCommit(NamedTuple):
    """The offset of one partition in a request. `topic_id` is all zero if the client named the topic."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


@lazy_attrs.frozen
class Committer:
    """The sender of an OffsetCommit or TxnOffsetCommit.

    It is a member at its generation or member epoch, or no member at a negative epoch.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    api_version: int


def commit_offsets(
    state: OffsetsShard,
    committer: Committer,
    offsets: Sequence[OffsetToCommit],
    retention_time_ms: int,
    now_ms: int,
    producer: Producer | None = None,
) -> Decision[list[ErrorCode]]:
    """Decides on an error code for each of the offsets. Raises KafkaError if the committer may not commit one of
    them.

    If the client sent a retention time (OffsetCommit before version 5), its offsets expire after it. With a `producer`
    the offsets are part of its transaction.
    """
    group_id, member_id = committer.group_id, committer.member_id
    validator = _validate(state, committer, is_transactional=producer is not None)
    expire_timestamp_ms = _NEVER
    if retention_time_ms != _DEFAULT_RETENTION:
        expire_timestamp_ms = min(now_ms + retention_time_ms, _TIMESTAMP_MAX)
    metadata_max = state.config.offset_metadata_max_bytes
    records, codes = [], []
    for each in offsets:
        if each.metadata is not None and len(each.metadata) > metadata_max:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        else:
            if validator is not None:
                validator(each.topic, _topic_id(state, each), each.partition)
            records.append(_record(group_id, each, now_ms, expire_timestamp_ms))
            codes.append(ErrorCode.NONE)
    group = state.groups.get(group_id)
    if group is None or producer is not None:
        return Decision(records, codes, producer=producer)
    return Decision(records, codes, apply=lambda: group.committed(member_id, state.context.timers))


def _record(group_id: str, offset: OffsetToCommit, now_ms: int, expire_timestamp_ms: int) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic=offset.topic, partition=offset.partition)
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=offset.topic_id,
    )
    version = None if expire_timestamp_ms == _NEVER else OFFSET_COMMIT_VALUE_WITH_EXPIRY
    return CoordinatorRecord(encode_key(key), encode_value(value, version))


def _topic_id(state: OffsetsShard, offset: OffsetToCommit) -> bytes:
    """The id of the offset's topic; all zero if the topic is not known."""
    if offset.topic_id != ZERO_UUID:
        return offset.topic_id
    topic = state.context.image.topics.by_name.get(offset.topic)
    return ZERO_UUID if topic is None else topic.topic_id


def _validate(state: OffsetsShard, committer: Committer, *, is_transactional: bool) -> PartitionValidator | None:
    """Raises KafkaError if the committer may not commit; returns the validator of each partition, if its group
    has one. A committer that is no member may commit for a new group, which becomes a simple one.
    """
    group = state.groups.get(committer.group_id)
    if group is not None:
        return group.validate_offset_commit(
            committer.member_id,
            committer.instance_id,
            committer.epoch,
            api_version=committer.api_version,
            is_transactional=is_transactional,
        )
    if committer.epoch < 0:
        return None
    if state.offsets.has_group(committer.group_id):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)  # a simple group has no members
    told_from = _TXN_GROUP_ID_NOT_FOUND_FROM if is_transactional else _GROUP_ID_NOT_FOUND_FROM
    is_told = committer.api_version >= told_from
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION)


def committed_partitions(state: OffsetsShard, request: OffsetFetchRequestGroup) -> list[OffsetFetchRequestTopics]:
    """All partitions for which the group has committed offsets, by topic. Raises KafkaError."""
    _validate_fetch(state, request)
    return [
        OffsetFetchRequestTopics(name=topic, partition_indexes=list(offsets))
        for topic, offsets in state.offsets.of_group(request.group_id).items()
    ]


def fetch_offsets(
    state: OffsetsShard, request: OffsetFetchRequestGroup, *, require_stable: bool, only_committed: bool = False
) -> OffsetFetchResponseGroup:
    """The group's committed offsets for the partitions of the request. Raises KafkaError.

    The request names its topics. With `require_stable`, an offset that an open transaction may replace is answered with
    UNSTABLE_OFFSET_COMMIT (KIP-447). With `only_committed`, partitions without an offset are left out: those whose
    offsets were deleted after `committed_partitions` listed them.
    """
    _validate_fetch(state, request)
    committed = state.offsets.of_group(request.group_id)
    unstable = state.offsets.is_pending if require_stable else _is_never_pending
    topics = []
    for topic in request.topics or ():
        offsets = committed.get(topic.name, {})
        answers = [
            _unstable(partition)
            if unstable(request.group_id, topic.name, partition)
            else _answer(partition, offsets.get(partition), topic.topic_id)
            for partition in topic.partition_indexes
            if partition in offsets or not only_committed
        ]
        if only_committed and not answers:
            continue
        topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def _validate_fetch(state: OffsetsShard, request: OffsetFetchRequestGroup) -> None:
    group = state.groups.get(request.group_id)
    if group is not None:
        group.validate_offset_fetch(request.member_id, request.member_epoch)


def _is_never_pending(group_id: str, topic: str, partition: int) -> bool:
    return False


def _answer(partition: int, committed: OffsetAndMetadata | None, topic_id: bytes) -> OffsetFetchResponsePartitions:
    """Answers that there is no offset if it was committed for an earlier topic of the same name."""
    if committed is None or (ZERO_UUID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id):
        return no_offset(partition, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def no_offset(partition: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    """The response for a partition without an offset, with the reason if that is an error."""
    return OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=NO_OFFSET, committed_leader_epoch=NO_LEADER_EPOCH, error_code=code
    )


def delete_offsets(
    state: OffsetsShard, group_id: str, partitions: Sequence[tuple[str, int]]
) -> Decision[list[ErrorCode]]:
    """Decides on an error code for each of the partitions. Raises KafkaError."""
    group = state.groups.get(group_id)
    if group is not None:
        group.validate_offset_delete()
    elif not state.offsets.has_group(group_id):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    records, codes = [], []
    for topic, partition in partitions:
        if group is not None and group.is_subscribed_to(topic):
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        codes.append(ErrorCode.NONE)
        place = CommittedPartition(group_id, topic, partition)
        if state.offsets.get(*place) is not None or state.offsets.is_pending(*place):
            records.append(offset_tombstone(place))
    return Decision(records, codes)


def delete_all_offsets(state: OffsetsShard, group_id: str) -> list[CoordinatorRecord]:
    """The tombstones for all offsets of the group, committed and pending; for DeleteGroups."""
    return [offset_tombstone(place) for place in state.offsets.partitions_of_group(group_id)]
