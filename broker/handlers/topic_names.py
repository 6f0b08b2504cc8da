"""Decisions that depend on a topic's name only."""

from broker.coordinator.internal_topics import INTERNAL_TOPICS
from broker.server.context import BrokerContext
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import validate_topic_name


def is_internal(name: str) -> bool:
    """True if the topic is internal to the cluster."""
    return name in INTERNAL_TOPICS


def topic_name(context: BrokerContext, topic: str | bytes) -> str | None:
    """The name of a topic that a request identifies by name or id; None if there is no topic of that id."""
    if isinstance(topic, str):
        return topic
    known = context.services.loader.image.topics.by_id.get(topic)
    return None if known is None else known.name


def unknown_topic(name: str) -> KafkaError:
    """The error for a topic that does not exist, or whose name is invalid."""
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error.with_traceback(None)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def unknown_topic_code(name: str) -> ErrorCode:
    """The error code of `unknown_topic`, for responses without a message."""
    return unknown_topic(name).code
