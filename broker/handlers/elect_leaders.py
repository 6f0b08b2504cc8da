"""ElectLeaders (key 43): elect the leaders of partitions (KIP-460)."""

from collections.abc import Sequence

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import consumed, each
from broker.wire.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from broker.wire.errors import KafkaError
from metadata.controller import ElectedPartition
from metadata.protocol import AclOperation


def elect_leaders(context: ControllerContext, request: ElectLeadersRequest) -> Work[ElectLeadersResponse]:
    """Elects leaders. Version 0 has no election type; its default is the preferred leader."""
    named = request.topic_partitions
    wanted = None if named is None else [(topic.topic, topic.partitions) for topic in named]
    topics = yield from in_task(
        context.services.controller.elect_leaders(request.election_type, wanted, context=context)
    )
    results = yield from each(lambda topic: _result(topic.name, topic.partitions), consumed(topics))
    return ElectLeadersResponse(replica_election_results=results)


def refused(context: ControllerContext, request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The response with the error for the request and each partition, as version 0 has no error for the request."""
    results = [
        _result(topic.topic, [ElectedPartition(partition_id, error) for partition_id in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code_of(error), replica_election_results=results)


def _result(topic: str, partitions: Sequence[ElectedPartition]) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic=topic,
        partition_result=[
            PartitionResult(
                partition_id=partition.partition_id,
                error_code=code_of(partition.error),
                error_message=message_of(partition.error),
            )
            for partition in partitions
        ],
    )


HANDLER = Handler(
    ElectLeadersRequest,
    elect_leaders,
    request_bytes_max=REQUEST_BYTES_MAX // 4,
    refused=refused,
    operation=AclOperation.ALTER,
    forwarded=True,
)
