"""Creates topics that a client requests and that do not exist (`auto.create.topics.enable`)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from broker.client import decode_response, encode_request
from broker.coordinator.internal_topics import internal_topic
from broker.server.context import BrokerContext
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.errors import ErrorCode, KafkaError

_VERSION: Final = 7
_DEFAULT: Final = -1
# The client retries after this time. A longer one would delay the response for the other topics of its request.
_TIMEOUT_MS: Final = 2_000
_THERE_NOW: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


async def create_missing_topics(context: BrokerContext, names: Sequence[str]) -> dict[str, ErrorCode]:
    """Have the controller create topics for the client's principal; returns the errors by name.

    They get the controller's defaults. If the controller cannot be reached, the topics stay unknown, and clients retry.
    """
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT) for name in names],
        timeout_ms=_TIMEOUT_MS,
    )

    async def create() -> CreateTopicsResponse:
        payload = await context.services.controllers.forward(
            encode_request(request, _VERSION, context.client_id or ""),
            principal=context.principal,
            client_host=context.client_host,
            timeout_ms=_TIMEOUT_MS,
        )
        response: CreateTopicsResponse = decode_response(request, _VERSION, payload)
        return response

    return await _created(context, names, create)


async def create_internal_topic(context: BrokerContext, name: str) -> ErrorCode:
    """Have the controller create a coordinator's topic, with its configs, on behalf of this broker.

    Its clients need no right to create topics. Returns the error, or NONE.
    """
    topic = internal_topic(name, context.services.config)
    assert topic is not None, f"{name} belongs to a coordinator"
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)

    async def create() -> CreateTopicsResponse:
        response: CreateTopicsResponse = await context.services.controllers.call(
            request, _VERSION, timeout_ms=_TIMEOUT_MS
        )
        return response

    return (await _created(context, [name], create)).get(name, ErrorCode.NONE)


async def _created(
    context: BrokerContext, names: Sequence[str], create: Callable[[], Awaitable[CreateTopicsResponse]]
) -> dict[str, ErrorCode]:
    """The errors by name. Waits until this broker knows the created topics."""
    try:
        response = await create()
    except KafkaError:
        return dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    failures = {
        topic.name: _failure(topic.error_code) for topic in response.topics if topic.error_code not in _THERE_NOW
    }
    there = [name for name in names if name not in failures]
    await context.services.image_waits.until(
        lambda image: all(name in image.topics.by_name for name in there), _TIMEOUT_MS / 1000
    )
    return failures


def _failure(code: int) -> ErrorCode:
    """The error for the client. While its quota on such changes is used up, the topic stays unknown, as in Kafka."""
    is_throttled = code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_throttled else ErrorCode(code)
