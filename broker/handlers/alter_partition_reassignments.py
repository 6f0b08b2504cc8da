"""AlterPartitionReassignments (key 45): move replicas of partitions to other brokers (KIP-455).

The response is sent when the reassignment is committed, before the new replicas have caught up.
"""

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from broker.wire.errors import KafkaError
from metadata.controller import ReassignedPartition, ReassignedTopic, Reassignment, TopicReassignments
from metadata.protocol import AclOperation


def alter_partition_reassignments(
    context: ControllerContext, request: AlterPartitionReassignmentsRequest
) -> Work[AlterPartitionReassignmentsResponse]:
    allowed = request.allow_replication_factor_change
    topics = yield from _wanted_topics(request.topics)
    outcomes = yield from in_task(
        context.services.controller.alter_partition_reassignments(topics, allow_factor_change=allowed, context=context)
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        error_message=None,
        responses=(yield from _responses(outcomes)),
    )


def refused(
    context: ControllerContext, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=code_of(error),
        error_message=message_of(error),
    )


def _wanted_topics(topics: list[ReassignableTopic]) -> Steps[list[TopicReassignments]]:
    """The requested reassignments by topic, in steps: one topic may have all partitions of the request."""
    wanted = []
    for topic in topics:
        partitions = yield from each(_wanted, topic.partitions)
        wanted.append(TopicReassignments(topic.name, partitions))
        if not len(wanted) % STEP_ITEMS:
            yield
    return wanted


def _responses(topics: list[ReassignedTopic]) -> Steps[list[ReassignableTopicResponse]]:
    responses = []
    for topic in topics:
        partitions = yield from each(_outcome, topic.partitions)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        if not len(responses) % STEP_ITEMS:
            yield
    return responses


def _wanted(partition: ReassignablePartition) -> Reassignment:
    return Reassignment(partition.partition_index, None if partition.replicas is None else tuple(partition.replicas))


def _outcome(partition: ReassignedPartition) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition.partition_id,
        error_code=code_of(partition.error),
        error_message=message_of(partition.error),
    )


HANDLER = Handler(
    AlterPartitionReassignmentsRequest,
    alter_partition_reassignments,
    request_bytes_max=REQUEST_BYTES_MAX // 2,
    refused=refused,
    operation=AclOperation.ALTER,
    forwarded=True,
)
