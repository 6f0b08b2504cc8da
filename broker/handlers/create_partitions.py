"""CreatePartitions (key 37): add partitions to topics (KIP-195)."""

from collections import Counter

from broker.handlers.authorization import refusal
from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import each, filtered
from broker.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker.wire.errors import KafkaError
from metadata.controller import NewPartitions
from metadata.protocol import AclOperation, ResourceType


def create_partitions(context: ControllerContext, request: CreatePartitionsRequest) -> Work[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)

    def may_alter(topic: CreatePartitionsTopic) -> bool:
        # A repeated name has an error of its own.
        return times[topic.name] > 1 or context.allows(AclOperation.ALTER, ResourceType.TOPIC, topic.name)

    topics = yield from filtered(may_alter, request.topics)
    wanted = yield from each(_wanted, topics)
    outcomes = yield from in_task(
        context.services.controller.create_partitions(wanted, validate_only=request.validate_only, context=context)
    )
    results = yield from each(lambda outcome: _result(outcome.name, outcome.error), outcomes)
    known = {result.name for result in results}
    refused = refusal(ResourceType.TOPIC)
    results += [_result(name, refused) for name in times if name not in known]
    return CreatePartitionsResponse(throttle_time_ms=context.mutations_throttle_time_ms, results=results)


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        name=topic.name,
        count=topic.count,
        assignments=None if assignments is None else [tuple(assignment.broker_ids) for assignment in assignments],
    )


def refused(
    context: ControllerContext, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=[_result(name, error) for name in names])


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code_of(error), error_message=message_of(error))


HANDLER = Handler(
    CreatePartitionsRequest,
    create_partitions,
    request_bytes_max=REQUEST_BYTES_MAX // 2,
    refused=refused,
    forwarded=True,
)
