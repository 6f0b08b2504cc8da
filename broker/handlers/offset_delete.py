"""OffsetDelete (key 47): forget what a group has committed for partitions that it does not consume (KIP-496)."""

from broker.coordinator.decision import CoordinatorError
from broker.handlers.completed import reply
from broker.handlers.handler import REQUEST_BYTES_MAX, Handler, RequestContext
from broker.net.reply import Pending
from broker.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from broker.wire.errors import ErrorCode


def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse | Pending:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    by_name = context.services.loader.image.topics.by_name
    partitions: list[tuple[str, int]] = []
    answers: list[OffsetDeleteResponsePartition] = []
    response = OffsetDeleteResponse()
    for topic in request.topics:
        image = by_name.get(topic.name)
        answer = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            index = partition.partition_index
            partition_answer = OffsetDeleteResponsePartition(partition_index=index)
            answer.partitions.append(partition_answer)
            if image is not None and index in image.partitions:
                partitions.append((topic.name, index))
                answers.append(partition_answer)
            else:
                partition_answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def respond(outcome: list[ErrorCode] | CoordinatorError) -> OffsetDeleteResponse:
        if isinstance(outcome, CoordinatorError):
            return OffsetDeleteResponse(error_code=outcome.code)
        for answer, code in zip(answers, outcome, strict=True):
            answer.error_code = code
        return response

    if not partitions:
        return response
    return reply(context, context.services.groups.offset_delete(request.group_id, partitions), respond)


HANDLER = Handler(
    request_bytes_max=REQUEST_BYTES_MAX // 4, api_key=47, min_version=0, max_version=0, immediate=offset_delete
)
