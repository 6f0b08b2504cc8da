"""AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730). Served by controllers only."""

from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from metadata.protocol import AclOperation


def allocate_producer_ids(
    context: ControllerContext, request: AllocateProducerIdsRequest
) -> Work[AllocateProducerIdsResponse]:
    block = yield from in_task(
        context.services.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    )
    return AllocateProducerIdsResponse(producer_id_start=block.first_producer_id, producer_id_len=block.size)


HANDLER = Handler(
    AllocateProducerIdsRequest,
    allocate_producer_ids,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(AllocateProducerIdsResponse),
    operation=AclOperation.CLUSTER_ACTION,
    concurrent=True,
)
