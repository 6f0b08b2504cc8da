"""CreatePartitions (key 37): let topics grow (KIP-195)."""

from broker.handlers.controller_errors import code_of, message_of, refusal
from broker.handlers.handler import Handler, RequestContext
from broker.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from metadata.controller import NewPartitions
from metadata.errors import ApiError


async def create_partitions(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    wanted = [
        NewPartitions(
            name=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else [tuple(assignment.broker_ids) for assignment in topic.assignments],
        )
        for topic in request.topics
    ]
    try:
        outcomes = await context.services.controller.create_partitions(wanted, validate_only=request.validate_only)
    except ApiError as error:
        code, message = refusal(error)
        results = [
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
            for name in dict.fromkeys(topic.name for topic in request.topics)
        ]
    else:
        results = [
            CreatePartitionsTopicResult(
                name=outcome.name, error_code=code_of(outcome.error), error_message=message_of(outcome.error)
            )
            for outcome in outcomes
        ]
    return CreatePartitionsResponse(results=results)


HANDLER = Handler(api_key=37, min_version=0, max_version=3, deferred=create_partitions)
