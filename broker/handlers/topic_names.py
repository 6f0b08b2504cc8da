"""Decisions that depend on a topic's name only."""

from typing import Final

from broker.server.context import RequestContext
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import validate_topic_name
from metadata.errors import InvalidTopic

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def is_internal(name: str) -> bool:
    """Whether the topic belongs to the cluster itself."""
    return name in INTERNAL_TOPICS


def topic_name(context: RequestContext, topic: str | bytes) -> str | None:
    """The name of a topic that a request names or gives the id of; None if there is no topic of that id."""
    if isinstance(topic, str):
        return topic
    known = context.services.loader.image.topics.by_id.get(topic)
    return None if known is None else known.name


def unknown_topic(name: str) -> KafkaError:
    """The error for a topic that does not exist: it may be because it cannot."""
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, error.message)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def why_unknown(name: str) -> ErrorCode:
    """As `unknown_topic`, for answers that have no message."""
    return unknown_topic(name).code
