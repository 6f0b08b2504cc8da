"""DescribeProducers (key 61): the producers that this broker's replicas know, leaders and followers (KIP-664).

An idempotent producer is known from its first batch until it has been idle for `producer.id.expiration.ms`.
"""

from broker.handlers.authorization import refusal
from broker.handlers.topic_names import unknown_topic
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import Steps
from broker.storage.producer_state import ProducerState
from broker.wire.api import describe_producers as wire
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

# A step after this many producers bounds how long one request holds the event loop: about 2 ms.
_PRODUCERS_AT_ONCE = 1_000


def describe_producers(
    context: BrokerContext, request: wire.DescribeProducersRequest
) -> Work[wire.DescribeProducersResponse]:
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    response = wire.DescribeProducersResponse()
    for name, indexes in wanted.items():
        answer = wire.TopicResponse(name=name)
        response.topics.append(answer)
        for index in indexes:
            answer.partitions.append((yield from _describe_partition(context, name, index)))
            yield None
    return response


def _describe_partition(context: BrokerContext, name: str, index: int) -> Steps[wire.PartitionResponse]:
    services = context.services
    refused = _refusal(context, name)
    if refused is not None:
        return wire.PartitionResponse(partition_index=index, error_code=refused.code, error_message=refused.message)
    try:
        services.partitions.commit_staged()
        known = list(services.partitions.get(name, index).readable_log().producers.active())
    except KafkaError as error:
        # As in Kafka, only the errors of topics have a message.
        return wire.PartitionResponse(partition_index=index, error_code=error.code)
    answer = wire.PartitionResponse(partition_index=index)
    for start in range(0, len(known), _PRODUCERS_AT_ONCE):
        answer.active_producers += map(_describe_producer, known[start : start + _PRODUCERS_AT_ONCE])
        yield
    return answer


def _refusal(context: BrokerContext, name: str) -> KafkaError | None:
    """The error of a topic. An invalid name is told to every client, as in Kafka."""
    unknown = None if name in context.services.loader.image.topics.by_name else unknown_topic(name)
    if unknown is not None and unknown.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return unknown
    return unknown if context.allows(AclOperation.READ, ResourceType.TOPIC, name) else refusal(ResourceType.TOPIC)


def _describe_producer(state: ProducerState) -> wire.ProducerState:
    return wire.ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.current_txn_first_offset,
    )


HANDLER = Handler(wire.DescribeProducersRequest, describe_producers, request_bytes_max=REQUEST_BYTES_MAX // 8)
