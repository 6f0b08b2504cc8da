"""OffsetFetch (key 9): the committed offsets of groups that this broker coordinates.

An unknown group has no committed offsets, which is not an error.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.coordinator.group.offsets.requests import no_offset
from broker.server.context import RequestContext
from broker.server.handler import Handler
from broker.server.scheduler import Work
from broker.server.slices import STEP_ITEMS, Steps, each, freed
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

_ERROR_OF_GROUP_FROM: Final = 2
_MANY_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
# Topics, or partitions of one, that are looked up at once.
_FEW: Final = 200
_STEP_GROUPS: Final = 16


def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> Work[OffsetFetchResponse]:
    """Large groups are read in portions, each of which reads the state at another time."""
    version = context.api_version
    groups = yield from _groups(request, version)
    if not _is_one_portion(groups):
        yield None
    image = context.services.loader.image.topics
    response = OffsetFetchResponse()
    for number, group in enumerate(groups, 1):
        response.groups.append((yield from _fetch_group(context, group, image, require_stable=request.require_stable)))
        if not number % _STEP_GROUPS:
            yield None
    if version >= _MANY_FROM:
        return response
    old = yield from _in_old_shape(version, groups[0], response.groups[0])
    for message in (response, groups[0]):
        yield from freed(message)
    return old


def _is_one_portion(groups: Sequence[OffsetFetchRequestGroup]) -> bool:
    """False for all offsets of a group, whose number is not known."""
    if len(groups) != 1 or groups[0].topics is None:
        return not groups
    topics = groups[0].topics
    return len(topics) <= _FEW and sum(max(len(topic.partition_indexes), 1) for topic in topics) <= _FEW


def _fetch_group(
    context: RequestContext, group: OffsetFetchRequestGroup, image: TopicsImage, *, require_stable: bool
) -> Work[OffsetFetchResponseGroup]:
    answer = OffsetFetchResponseGroup(group_id=group.group_id)
    names_ids = context.api_version >= _TOPIC_IDS_FROM
    wants_all = group.topics is None
    if wants_all:
        committed = yield from context.services.groups.committed_partitions(group)
        if isinstance(committed, KafkaError):
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=committed.code)
        group.topics = committed
    for number, portion in enumerate((yield from _portions(group))):
        if number:
            yield None
        unknown = _name_topics(portion, image) if names_ids and not wants_all else []
        outcome = yield from context.services.groups.offset_fetch(
            portion, require_stable=require_stable, only_committed=wants_all
        )
        told = _answer(portion, outcome, unknown)
        answer.error_code = told.error_code
        if told.error_code:
            answer.topics = told.topics
            break
        if names_ids:
            _identify_topics(told, image)
        _add(answer, told.topics)
    return answer


def _portions(group: OffsetFetchRequestGroup) -> Steps[list[OffsetFetchRequestGroup]]:
    """The group's request, split into requests for some of its topics and partitions each."""
    portions: list[list[OffsetFetchRequestTopics]] = []
    size = _FEW
    for topic in group.topics or ():
        for first in range(0, max(len(topic.partition_indexes), 1), _FEW):
            if size >= _FEW:
                if portions:
                    yield
                portions.append([])
                size = 0
            some = topic.partition_indexes[first : first + _FEW]
            asked = OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=some)
            portions[-1].append(asked)
            size += max(len(some), 1)
    return [
        OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
        )
        for topics in portions or [[]]
    ]


def _add(answer: OffsetFetchResponseGroup, topics: list[OffsetFetchResponseTopics]) -> None:
    last = answer.topics[-1] if answer.topics else None
    for topic in topics:
        if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
            last.partitions += topic.partitions  # a topic of several portions
        else:
            answer.topics.append(topic)
        last = answer.topics[-1]


def _groups(request: OffsetFetchRequest, version: int) -> Steps[list[OffsetFetchRequestGroup]]:
    """The requested groups. Before version 8 there is one, whose fields are in the request itself."""
    if version >= _MANY_FROM:
        return request.groups
    topics = None if request.topics is None else (yield from each(_topic_in_new_shape, request.topics))
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _topic_in_new_shape(topic: OffsetFetchRequestTopic) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)


def _name_topics(group: OffsetFetchRequestGroup, topics: TopicsImage) -> list[OffsetFetchRequestTopics]:
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


def _answer(
    group: OffsetFetchRequestGroup,
    outcome: OffsetFetchResponseGroup | KafkaError,
    unknown: list[OffsetFetchRequestTopics],
) -> OffsetFetchResponseGroup:
    if isinstance(outcome, KafkaError):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=outcome.code)
    outcome.topics += _refused(unknown, ErrorCode.UNKNOWN_TOPIC_ID)
    return outcome


def _identify_topics(answer: OffsetFetchResponseGroup, topics: TopicsImage) -> None:
    """Set the ids of topics in a response with all offsets; leave out topics that do not exist any more."""
    identified = []
    for topic in answer.topics:
        image = topics.by_name.get(topic.name)
        if image is not None and not any(topic.topic_id):
            topic.topic_id = image.topic_id
        if any(topic.topic_id):
            identified.append(topic)
    answer.topics = identified


def _in_old_shape(
    version: int, group: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup
) -> Steps[OffsetFetchResponse]:
    code = ErrorCode(answer.error_code)
    response = OffsetFetchResponse(error_code=code)
    if code is not ErrorCode.NONE and version < _ERROR_OF_GROUP_FROM:
        for topic in group.topics or ():
            partitions = yield from each(partial(_refused_in_old_shape, code), topic.partition_indexes)
            yield from _append(response, topic.name, partitions)
    for told in answer.topics:
        partitions = yield from each(_partition_in_old_shape, told.partitions)
        yield from _append(response, told.name, partitions)
    return response


def _append(response: OffsetFetchResponse, name: str, partitions: list[OffsetFetchResponsePartition]) -> Steps[None]:
    response.topics.append(OffsetFetchResponseTopic(name=name, partitions=partitions))
    if not len(response.topics) % STEP_ITEMS:
        yield


def _refused_in_old_shape(code: ErrorCode, partition: int) -> OffsetFetchResponsePartition:
    return _partition_in_old_shape(no_offset(partition, code))


def _partition_in_old_shape(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _refused(topics: Sequence[OffsetFetchRequestTopics], code: ErrorCode) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[no_offset(index, code) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


HANDLER = Handler(OffsetFetchRequest, offset_fetch)
