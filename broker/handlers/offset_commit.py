"""OffsetCommit (key 8): a group's offsets are kept by its coordinator.

Anybody may commit for a group that has no members, under generation -1; members only in the generation of now.
"""

from typing import Final

from broker.coordinator.decision import CoordinatorError
from broker.coordinator.group.offset_requests import Committer, OffsetToCommit
from broker.handlers.completed import reply
from broker.handlers.handler import REQUEST_BYTES_MAX, Handler, RequestContext
from broker.net.reply import Pending
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode
from metadata.image import TopicImage

_TOPIC_IDS_FROM: Final = 10


def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Pending:
    offsets: list[OffsetToCommit] = []
    answers: list[OffsetCommitResponsePartition] = []
    response = OffsetCommitResponse()
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        _take(context, topic, answer, offsets, answers)
    if not offsets:
        return response

    def respond(outcome: list[ErrorCode] | CoordinatorError) -> OffsetCommitResponse:
        codes = [outcome.code] * len(answers) if isinstance(outcome, CoordinatorError) else outcome
        for answer, code in zip(answers, codes, strict=True):
            answer.error_code = code
        return response

    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.api_version,
    )
    completion = context.services.groups.offset_commit(committer, offsets, request.retention_time_ms)
    return reply(context, completion, respond)


def _take(
    context: RequestContext,
    topic: OffsetCommitRequestTopic,
    answer: OffsetCommitResponseTopic,
    offsets: list[OffsetToCommit],
    answers: list[OffsetCommitResponsePartition],
) -> None:
    """Add what can be committed to `offsets`, and where its outcome goes to `answers`; refuse the rest."""
    image = _topic(context, topic)
    for partition in topic.partitions:
        index = partition.partition_index
        partition_answer = OffsetCommitResponsePartition(partition_index=index)
        answer.partitions.append(partition_answer)
        if image is not None and index in image.partitions:
            offsets.append(
                OffsetToCommit(
                    image.name,
                    topic.topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
            )
            answers.append(partition_answer)
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
HANDLER = Handler(
    api_key=8, min_version=2, max_version=10, immediate=offset_commit, request_bytes_max=4 * REQUEST_BYTES_MAX
)
