"""CreateTopics (key 19): create topics independently of each other; version 5 returns their configs (KIP-525)."""

from collections import Counter
from functools import partial
from typing import Final

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import Steps, each, filtered
from broker.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import CreatedTopic, NewTopic
from metadata.protocol import AclOperation, ResourceType

# The response has all configs of each topic.
_STEP_TOPICS: Final = 4


def create_topics(context: ControllerContext, request: CreateTopicsRequest) -> Work[CreateTopicsResponse]:
    allowed = yield from _allowed(context, request.topics)
    wanted = yield from each(_new_topic, allowed)
    created = yield from in_task(
        context.services.controller.create_topics(wanted, validate_only=request.validate_only, context=context)
    )
    topics = yield from each(partial(_result, context), created, _STEP_TOPICS)
    if len(allowed) < len(request.topics):
        known = {topic.name for topic in allowed}
        topics += [_refused(topic.name) for topic in request.topics if topic.name not in known]
    return CreateTopicsResponse(throttle_time_ms=context.mutations_throttle_time_ms, topics=topics)


def _allowed(context: ControllerContext, topics: list[CreatableTopic]) -> Steps[list[CreatableTopic]]:
    """The topics that the client may create, and those with repeated names, which are refused to every client."""
    if context.server.authorizer is None or context.allows_cluster(AclOperation.CREATE, is_tried=False):
        return topics
    times = Counter(topic.name for topic in topics)

    def may_create(topic: CreatableTopic) -> bool:
        return times[topic.name] > 1 or context.allows(AclOperation.CREATE, ResourceType.TOPIC, topic.name)

    return (yield from filtered(may_create, topics))


def _refused(name: str) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="Authorization failed."
    )


def refused(context: ControllerContext, request: CreateTopicsRequest, error: KafkaError) -> Steps[CreateTopicsResponse]:
    code = code_of(error)

    def result(name: str) -> CreatableTopicResult:
        return CreatableTopicResult(name=name, error_code=code, error_message=message_of(error))

    results = yield from each(result, dict.fromkeys(topic.name for topic in request.topics))
    return CreateTopicsResponse(topics=results)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(partition.partition_index, tuple(partition.broker_ids)) for partition in topic.assignments],
        configs=_configs(topic),
    )


def _configs(topic: CreatableTopic) -> dict[str, str | None]:
    """The last value of each config counts, but none of them may be null."""
    configs: dict[str, str | None] = {}
    for config in topic.configs:
        is_null = config.value is None or configs.get(config.name, "") is None
        configs[config.name] = None if is_null else config.value
    return configs


def _result(context: ControllerContext, topic: CreatedTopic) -> CreatableTopicResult:
    """The values of the request are returned as they were written, like in Kafka: DescribeConfigs normalizes them."""
    if topic.error is not None:
        return CreatableTopicResult(
            name=topic.name, error_code=code_of(topic.error), error_message=message_of(topic.error)
        )
    if not context.allows(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, is_tried=False):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=topic.configs.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in context.services.config.describe_topic(topic.configs)
        ],
    )


# 10,000 partitions, which is all that one request may create, with their assignments and some configs.
HANDLER = Handler(
    CreateTopicsRequest, create_topics, request_bytes_max=2 * REQUEST_BYTES_MAX, refused=refused, forwarded=True
)
