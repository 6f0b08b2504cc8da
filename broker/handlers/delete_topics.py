"""DeleteTopics (key 20): delete topics, by name or, from version 6, by id (KIP-516)."""

from typing import Final

from broker.handlers.controller_errors import code_of, message_of, refusal
from broker.handlers.handler import Handler, RequestContext
from broker.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from metadata.controller import TopicToDelete
from metadata.errors import ApiError, InvalidRequest, TopicDeletionDisabled

_DELETION_DISABLED_FROM: Final = 3
_STRUCTS_FROM: Final = 6


async def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if context.api_version >= _STRUCTS_FROM:
        topics = [TopicToDelete(topic.name, topic.topic_id) for topic in request.topics]
    else:
        topics = [TopicToDelete(name) for name in request.topic_names]
    try:
        deleted = await context.services.controller.delete_topics(topics)
    except ApiError as error:
        if isinstance(error, TopicDeletionDisabled) and context.api_version < _DELETION_DISABLED_FROM:
            error = InvalidRequest("Topic deletion is disabled.")
        code, message = refusal(error)
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
                for topic in topics
            ]
        )
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=code_of(topic.error),
                error_message=message_of(topic.error),
            )
            for topic in deleted
        ]
    )


HANDLER = Handler(api_key=20, min_version=1, max_version=6, deferred=delete_topics)
