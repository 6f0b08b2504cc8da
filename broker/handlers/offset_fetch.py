"""OffsetFetch (key 9): the committed offsets of groups that this broker coordinates.

An unknown group has no committed offsets, which is not an error.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.coordinator.group.offsets.requests import no_offset
from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work, hold_next_request
from broker.server.slices import STEP_ITEMS, Steps, each, filtered, freed
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import TopicsImage
from metadata.protocol import AclOperation, ResourceType

_GROUP_ERROR_FROM: Final = 2
_GROUPS_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
# Partitions that are looked up at once. A topic without partitions counts as one.
_PORTION_MAX: Final = 200
_STEP_GROUPS: Final = 16


def offset_fetch(context: BrokerContext, request: OffsetFetchRequest) -> Work[OffsetFetchResponse]:
    """Large groups are read in portions, each of which reads the state at another time."""
    version = context.api_version
    groups = yield from _groups(request, version)
    if not _is_one_portion(groups):
        yield from hold_next_request()
    image = context.services.loader.image.topics
    response = OffsetFetchResponse()
    for number, group in enumerate(groups, 1):
        response.groups.append((yield from _fetch_group(context, group, image, require_stable=request.require_stable)))
        if not number % _STEP_GROUPS:
            yield None
    if version >= _GROUPS_FROM:
        return response
    single = yield from _single_group_response(version, groups[0], response.groups[0])
    for message in (response, groups[0]):
        yield from freed(message)
    return single


def _is_one_portion(groups: Sequence[OffsetFetchRequestGroup]) -> bool:
    """False for all offsets of a group, whose number is not known."""
    if len(groups) != 1 or groups[0].topics is None:
        return not groups
    topics = groups[0].topics
    return len(topics) <= _PORTION_MAX and sum(max(len(topic.partition_indexes), 1) for topic in topics) <= _PORTION_MAX


def _fetch_group(
    context: BrokerContext, group: OffsetFetchRequestGroup, image: TopicsImage, *, require_stable: bool
) -> Work[OffsetFetchResponseGroup]:
    response = OffsetFetchResponseGroup(group_id=group.group_id)
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        response.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return response
    by_topic_id = context.api_version >= _TOPIC_IDS_FROM
    wants_all = group.topics is None
    if wants_all:
        committed = yield from context.services.groups.committed_partitions(group)
        if isinstance(committed, KafkaError):
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=committed.code)
        group.topics = yield from filtered(partial(_may_see, context, is_tried=False), committed)
    for number, portion in enumerate((yield from _portions(group))):
        if number:
            yield None
        unknown = _set_topic_names(portion, image) if by_topic_id and not wants_all else []
        hidden = [] if wants_all else _take_hidden_topics(context, portion)
        outcome = yield from context.services.groups.offset_fetch(
            portion, require_stable=require_stable, only_committed=wants_all
        )
        if isinstance(outcome, KafkaError):
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=outcome.code)
        outcome.topics += map(partial(_refused_topic, ErrorCode.UNKNOWN_TOPIC_ID), unknown)
        outcome.topics += map(partial(_refused_topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED), hidden)
        if by_topic_id:
            _set_topic_ids(outcome, image)
        _add_topics(response, outcome.topics)
    return response


def _portions(group: OffsetFetchRequestGroup) -> Steps[list[OffsetFetchRequestGroup]]:
    """The group's request, split into requests for some of its topics and partitions each."""
    portions: list[list[OffsetFetchRequestTopics]] = []
    size = _PORTION_MAX
    for topic in group.topics or ():
        for first in range(0, max(len(topic.partition_indexes), 1), _PORTION_MAX):
            if size >= _PORTION_MAX:
                if portions:
                    yield
                portions.append([])
                size = 0
            some = topic.partition_indexes[first : first + _PORTION_MAX]
            portions[-1].append(
                OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=some)
            )
            size += max(len(some), 1)
    return [
        OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
        )
        for topics in portions or [[]]
    ]


def _add_topics(response: OffsetFetchResponseGroup, topics: list[OffsetFetchResponseTopics]) -> None:
    """Add the topics of a portion to the response. Partitions of one topic may come from several portions."""
    last = response.topics[-1] if response.topics else None
    for topic in topics:
        if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
            last.partitions += topic.partitions
        else:
            response.topics.append(topic)
        last = response.topics[-1]


def _groups(request: OffsetFetchRequest, version: int) -> Steps[list[OffsetFetchRequestGroup]]:
    """The requested groups. Before version 8 there is one, whose fields are in the request itself."""
    if version >= _GROUPS_FROM:
        return request.groups
    topics = None if request.topics is None else (yield from each(_topic_of_group, request.topics))
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _topic_of_group(topic: OffsetFetchRequestTopic) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)


def _set_topic_names(group: OffsetFetchRequestGroup, topics: TopicsImage) -> list[OffsetFetchRequestTopics]:
    """Set the names of topics that are requested by id. Unknown topics are removed from the group and returned."""
    unknown = []
    for topic in group.topics or ():
        image = topics.by_id.get(topic.topic_id)
        if image is None:
            unknown.append(topic)
        else:
            topic.name = image.name
    if group.topics is not None:
        group.topics = [topic for topic in group.topics if topic.name]
    return unknown


def _may_see(context: BrokerContext, topic: OffsetFetchRequestTopics, *, is_tried: bool = True) -> bool:
    return context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, is_tried=is_tried)


def _take_hidden_topics(context: BrokerContext, group: OffsetFetchRequestGroup) -> list[OffsetFetchRequestTopics]:
    """Remove the topics that the client may not describe from the group, and return them."""
    topics = group.topics or []
    if context.server.authorizer is None:
        return []
    group.topics = [topic for topic in topics if _may_see(context, topic)]
    return [topic for topic in topics if topic not in group.topics]


def _refused_topic(code: ErrorCode, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[no_offset(index, code) for index in topic.partition_indexes],
    )


def _set_topic_ids(group: OffsetFetchResponseGroup, topics: TopicsImage) -> None:
    """Set the ids of topics in a response with all offsets; leave out topics that do not exist any more."""
    identified = []
    for topic in group.topics:
        image = topics.by_name.get(topic.name)
        if image is not None and not any(topic.topic_id):
            topic.topic_id = image.topic_id
        if any(topic.topic_id):
            identified.append(topic)
    group.topics = identified


def _single_group_response(
    version: int, request: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> Steps[OffsetFetchResponse]:
    """The response before version 8, which has one group. Before version 2, its error is that of each partition."""
    code = ErrorCode(group.error_code)
    response = OffsetFetchResponse(error_code=code)
    if code is not ErrorCode.NONE and version < _GROUP_ERROR_FROM:
        for topic in request.topics or ():
            partitions = yield from each(partial(_refused_partition, code), topic.partition_indexes)
            yield from _append(response, topic.name, partitions)
    for fetched in group.topics:
        partitions = yield from each(_single_group_partition, fetched.partitions)
        yield from _append(response, fetched.name, partitions)
    return response


def _append(response: OffsetFetchResponse, name: str, partitions: list[OffsetFetchResponsePartition]) -> Steps[None]:
    response.topics.append(OffsetFetchResponseTopic(name=name, partitions=partitions))
    if not len(response.topics) % STEP_ITEMS:
        yield


def _refused_partition(code: ErrorCode, partition: int) -> OffsetFetchResponsePartition:
    return _single_group_partition(no_offset(partition, code))


def _single_group_partition(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


HANDLER = Handler(OffsetFetchRequest, offset_fetch)
