"""OffsetCommit (key 8): the group's coordinator stores the offsets.

A group without members accepts commits of any client with generation -1. Members commit with their current generation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorError
from broker.net.reply import PendingReply
from broker.server.context import RequestContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import freed
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode
from metadata.image import TopicImage

_TOPIC_IDS_FROM: Final = 10
# Topics, or partitions of one, that are committed by one decision: some 5 ms.
_FEW: Final = 100


def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | PendingReply:
    if len(request.topics) > _FEW or any(len(topic.partitions) > _FEW for topic in request.topics):
        return context.defer(_commit_many(context, request))
    commit = _Commit()
    for topic in request.topics:
        _take(context, topic, topic.partitions, commit)
    response = OffsetCommitResponse(topics=commit.topics)
    if not commit.offsets:
        return response

    def respond(outcome: list[ErrorCode] | CoordinatorError) -> OffsetCommitResponse:
        commit.settle(outcome)
        return response

    return context.answer(_begin(context, request, commit), respond)


async def _commit_many(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commits portions of the offsets by one decision each; offsets of partitions do not depend on each other."""
    response = OffsetCommitResponse()
    for portion in _portions(context, request):
        async with context.slice():
            completion = _begin(context, request, portion) if portion.offsets else None
            context.services.partitions.commit_staged()  # no connection's turn commits it
        if completion is not None:
            outcome = await completion.wait()
            portion.settle(outcome)
        last = response.topics[-1] if response.topics else None
        for topic in portion.topics:
            if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
                last.partitions += topic.partitions  # a topic of several portions
            else:
                response.topics.append(topic)
            last = response.topics[-1]
    await context.finish(freed(request))
    return response


def _portions(context: RequestContext, request: OffsetCommitRequest) -> Iterator["_Commit"]:
    portion = _Commit()
    for topic in request.topics:
        for first in range(0, max(len(topic.partitions), 1), _FEW):
            if portion.size >= _FEW:
                yield portion
                portion = _Commit()
            _take(context, topic, topic.partitions[first : first + _FEW], portion)
    yield portion


class _Commit:
    """The offsets of one decision, the responses of all their topics, and the responses that wait for its outcome."""

    def __init__(self) -> None:
        self.offsets: list[OffsetToCommit] = []
        self.topics: list[OffsetCommitResponseTopic] = []
        self.waiting: list[OffsetCommitResponsePartition] = []
        self.size = 0

    def settle(self, outcome: list[ErrorCode] | CoordinatorError) -> None:
        codes = [outcome.code] * len(self.waiting) if isinstance(outcome, CoordinatorError) else outcome
        for answer, code in zip(self.waiting, codes, strict=True):
            answer.error_code = code


def _begin(context: RequestContext, request: OffsetCommitRequest, commit: _Commit) -> Completion[list[ErrorCode]]:
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.api_version,
    )
    return context.services.groups.offset_commit(committer, commit.offsets, request.retention_time_ms)


def _take(
    context: RequestContext,
    topic: OffsetCommitRequestTopic,
    partitions: Sequence[OffsetCommitRequestPartition],
    commit: _Commit,
) -> None:
    """Add some partitions of a topic to a commit; refuse partitions that do not exist."""
    image = _topic(context, topic)
    answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
    commit.topics.append(answer)
    commit.size += max(len(partitions), 1)
    for partition in partitions:
        index = partition.partition_index
        partition_answer = OffsetCommitResponsePartition(partition_index=index)
        answer.partitions.append(partition_answer)
        if image is not None and index in image.partitions:
            commit.offsets.append(
                OffsetToCommit(
                    image.name,
                    topic.topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
            )
            commit.waiting.append(partition_answer)
        elif image is None and context.api_version >= _TOPIC_IDS_FROM:
            partition_answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            partition_answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(context: RequestContext, topic: OffsetCommitRequestTopic) -> TopicImage | None:
    topics = context.services.loader.image.topics
    if context.api_version >= _TOPIC_IDS_FROM:
        return topics.by_id.get(topic.topic_id)
    return topics.by_name.get(topic.name)


# 20,000 partitions with metadata of 100 bytes.
HANDLER = Handler(OffsetCommitRequest, offset_commit, request_bytes_max=4 * REQUEST_BYTES_MAX)
