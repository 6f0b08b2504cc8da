"""AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730). Served by controllers only."""

from broker.handlers.response_errors import code_of
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from broker.wire.errors import KafkaError
from metadata.protocol import AclOperation


def allocate_producer_ids(
    context: ControllerContext, request: AllocateProducerIdsRequest
) -> Work[AllocateProducerIdsResponse]:
    block = yield from in_task(
        context.services.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    )
    return AllocateProducerIdsResponse(producer_id_start=block.first_producer_id, producer_id_len=block.size)


def refused(
    context: ControllerContext, request: AllocateProducerIdsRequest, error: KafkaError
) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code_of(error))


HANDLER = Handler(
    AllocateProducerIdsRequest,
    allocate_producer_ids,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refused,
    operation=AclOperation.CLUSTER_ACTION,
    concurrent=True,
)
