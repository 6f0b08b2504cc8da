"""OffsetCommit (key 8): the group's coordinator stores the offsets.

A group without members accepts commits of any client with generation -1. Members commit with their current generation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit
from broker.coordinator.runtime.completion import Completion
from broker.server.context import RequestContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import TopicImage

_TOPIC_IDS_FROM: Final = 10
# Topics, or partitions of one, that are committed by one decision: some 5 ms.
_FEW: Final = 100


def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> Work[OffsetCommitResponse]:
    """Commits portions of the offsets by one decision each; offsets of partitions do not depend on each other."""
    if not _is_one_portion(request.topics):
        yield None
    response = OffsetCommitResponse()
    for portion in _portions(context, request):
        if response.topics:
            yield None
        if portion.offsets:
            portion.settle((yield from _begin(context, request, portion)))
        portion.add_to(response)
    return response


def _is_one_portion(topics: Sequence[OffsetCommitRequestTopic]) -> bool:
    return len(topics) <= _FEW and sum(max(len(topic.partitions), 1) for topic in topics) <= _FEW


def _portions(context: RequestContext, request: OffsetCommitRequest) -> Iterator["_Commit"]:
    portion = _Commit()
    for topic in request.topics:
        count = max(len(topic.partitions), 1)
        if portion.size + count <= _FEW:
            _take(context, topic, topic.partitions, portion)
            continue
        for first in range(0, count, _FEW):
            if portion.size:
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

    def settle(self, outcome: list[ErrorCode] | KafkaError) -> None:
        codes = [outcome.code] * len(self.waiting) if isinstance(outcome, KafkaError) else outcome
        for answer, code in zip(self.waiting, codes, strict=True):
            answer.error_code = code

    def add_to(self, response: OffsetCommitResponse) -> None:
        """Add the topics to the response; the first one may have begun in an earlier portion."""
        topics = self.topics
        if response.topics and topics:
            last, first = response.topics[-1], topics[0]
            if (last.name, last.topic_id) == (first.name, first.topic_id):
                last.partitions += first.partitions
                topics = topics[1:]
        response.topics += topics


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
