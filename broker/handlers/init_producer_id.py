"""InitProducerId (key 22): a producer id of its own for each idempotent producer (KIP-98, KIP-360).

Without a transactional id, every request gets a fresh id: the broker remembers nothing of it. Transactional ids need
a transaction coordinator, which this broker does not have yet.
"""

from broker.handlers.handler import Handler, RequestContext
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.errors import ErrorCode
from metadata.errors import ApiError


async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if request.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    try:
        producer_id = await context.services.producer_ids.allocate()
    except ApiError:
        # The controller is away for a moment: the one answer that every client retries.
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


HANDLER = Handler(api_key=22, min_version=0, max_version=5, deferred=init_producer_id)
