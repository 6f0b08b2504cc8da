"""ListPartitionReassignments (key 46): the reassignments that are in progress (KIP-455).

The controller answers, so that a client finds a reassignment that it has just begun.
"""

from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from metadata.controller import OngoingReassignment
from metadata.protocol import AclOperation


def list_partition_reassignments(
    context: ControllerContext, request: ListPartitionReassignmentsRequest
) -> Work[ListPartitionReassignmentsResponse]:
    wanted = None
    if request.topics is not None:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    ongoing = yield from in_task(context.services.controller.list_partition_reassignments(wanted))
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(name=topic.name, partitions=[_listed(each) for each in topic.partitions])
            for topic in ongoing
        ],
    )


def _listed(ongoing: OngoingReassignment) -> OngoingPartitionReassignment:
    partition = ongoing.partition
    return OngoingPartitionReassignment(
        partition_index=ongoing.partition_id,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )


HANDLER = Handler(
    ListPartitionReassignmentsRequest,
    list_partition_reassignments,
    request_bytes_max=REQUEST_BYTES_MAX // 4,
    refused=error_response(ListPartitionReassignmentsResponse),
    operation=AclOperation.DESCRIBE,
    forwarded=True,
)
