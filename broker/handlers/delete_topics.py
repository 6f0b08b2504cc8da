"""DeleteTopics (key 20): delete topics, by name or, from version 6, by id (KIP-516)."""

from collections import Counter
from typing import Final

from broker.handlers.authorization import refusal
from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import Steps, each
from broker.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import DeletedTopic, TopicToDelete
from metadata.protocol import AclOperation, ResourceType

_DELETION_DISABLED_FROM: Final = 3
_STRUCTS_FROM: Final = 6


def delete_topics(context: ControllerContext, request: DeleteTopicsRequest) -> Work[DeleteTopicsResponse]:
    topics = yield from _topics(context, request)
    allowed, refused_topics = yield from _split(context, topics)
    deleted = yield from in_task(context.services.controller.delete_topics(allowed, context=context))
    responses = yield from each(_result, [*deleted, *refused_topics])
    return DeleteTopicsResponse(throttle_time_ms=context.mutations_throttle_time_ms, responses=responses)


def _split(
    context: ControllerContext, topics: list[TopicToDelete]
) -> Steps[tuple[list[TopicToDelete], list[DeletedTopic]]]:
    """The topics about which the controller has to decide, and the results for those that the client may not delete."""
    if context.server.authorizer is None or context.allows_cluster(AclOperation.DELETE, is_tried=False):
        return topics, []
    times = Counter(topics)
    results = yield from each(lambda topic: _refusal(context, topic, times[topic]), topics)
    allowed = [topic for topic, result in zip(topics, results, strict=True) if result is None]
    return allowed, [result for result in results if result is not None]


def _refusal(context: ControllerContext, topic: TopicToDelete, times: int) -> DeletedTopic | None:
    """The result for a topic that the client may not delete; None if the controller has to decide.

    A client that may not describe a topic does not learn its name by its id, nor whether a name exists.
    """
    if times > 1 or not topic.is_identified:
        return None  # refused to every client
    name, is_by_id = topic.name, topic.name is None
    topics = context.services.controller.image.topics
    known = topics.by_id.get(topic.topic_id) if name is None else topics.by_name.get(name)
    name = name if known is None else known.name
    if name is None:
        return None  # the id is unknown
    may_describe = context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    if may_describe and (known is None or context.allows(AclOperation.DELETE, ResourceType.TOPIC, name)):
        return None
    if is_by_id and context.allows(AclOperation.DELETE, ResourceType.TOPIC, name):
        return None
    return DeletedTopic(name if may_describe or not is_by_id else None, topic.topic_id, refusal(ResourceType.TOPIC))


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
