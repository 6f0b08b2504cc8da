"""DeleteTopics (key 20): delete topics, by name or, from version 6, by id (KIP-516)."""

from typing import Final

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import Steps, each
from broker.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import DeletedTopic, TopicToDelete

_DELETION_DISABLED_FROM: Final = 3
_STRUCTS_FROM: Final = 6


def delete_topics(context: ControllerContext, request: DeleteTopicsRequest) -> Work[DeleteTopicsResponse]:
    topics = yield from _topics(context, request)
    deleted = yield from in_task(context.services.controller.delete_topics(topics, context=context))
    responses = yield from each(_result, deleted)
    return DeleteTopicsResponse(throttle_time_ms=context.mutations_throttle_time_ms, responses=responses)


def _result(topic: DeletedTopic) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=code_of(topic.error),
        error_message=message_of(topic.error),
    )


def refused(context: ControllerContext, request: DeleteTopicsRequest, error: KafkaError) -> Steps[DeleteTopicsResponse]:
    if error.code is ErrorCode.TOPIC_DELETION_DISABLED and context.api_version < _DELETION_DISABLED_FROM:
        error = KafkaError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
    topics = yield from _topics(context, request)
    results = yield from each(lambda topic: _result(DeletedTopic(topic.name, topic.topic_id, error)), topics)
    return DeleteTopicsResponse(responses=results)


def _topics(context: ControllerContext, request: DeleteTopicsRequest) -> Steps[list[TopicToDelete]]:
    if context.api_version >= _STRUCTS_FROM:
        return each(lambda topic: TopicToDelete(topic.name, topic.topic_id), request.topics)
    return each(TopicToDelete, request.topic_names)


HANDLER = Handler(
    DeleteTopicsRequest, delete_topics, request_bytes_max=REQUEST_BYTES_MAX // 2, refused=refused, forwarded=True
)
