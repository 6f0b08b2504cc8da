"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas (KIP-858).

Served by controllers only.
"""

from broker.handlers.response_errors import code_of, error_response
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from metadata.controller import AssignedReplica, DirectoryAssignment
from metadata.protocol import AclOperation


def assign_replicas(
    context: ControllerContext, request: AssignReplicasToDirsRequest
) -> Work[AssignReplicasToDirsResponse]:
    assignments = [
        DirectoryAssignment(directory.id_, topic.topic_id, partition.partition_index)
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    assigned = yield from in_task(
        context.services.controller.assign_replicas_to_directories(request.broker_id, request.broker_epoch, assignments)
    )
    outcomes = iter(assigned)
    return AssignReplicasToDirsResponse(
        directories=[
            DirectoryResult(
                id_=directory.id_,
                topics=[
                    TopicResult(topic_id=topic.topic_id, partitions=[_result(next(outcomes)) for _ in topic.partitions])
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def _result(outcome: AssignedReplica) -> PartitionResult:
    return PartitionResult(partition_index=outcome.assignment.partition_id, error_code=code_of(outcome.error))


# A broker reports all its replicas in one request.
HANDLER = Handler(
    AssignReplicasToDirsRequest,
    assign_replicas,
    request_bytes_max=8 * REQUEST_BYTES_MAX,
    refused=error_response(AssignReplicasToDirsResponse),
    operation=AclOperation.CLUSTER_ACTION,
    concurrent=True,
)
