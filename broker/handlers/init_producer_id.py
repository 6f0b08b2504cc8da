"""InitProducerId (key 22): a producer id of its own for each idempotent producer (KIP-98, KIP-360).

Without a transactional id, every request gets a fresh id: the broker remembers nothing of it. Transactional ids need
a transaction coordinator, which this broker does not have yet: CLUSTER_AUTHORIZATION_FAILED is final for all clients,
where librdkafka retries UNSUPPORTED_VERSION and others (see `find_coordinator`).
"""

from broker.server.context import RequestContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.errors import ErrorCode
from broker.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from metadata.errors import ApiError


async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        is_named = bool(request.transactional_id)
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED if is_named else ErrorCode.INVALID_REQUEST)
    try:
        producer_id = await context.services.producer_ids.allocate()
    except ApiError:
        # The controller is away for a moment: the one answer that every client retries.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


HANDLER = Handler(InitProducerIdRequest, init_producer_id, versions="0-5", request_bytes_max=SMALL_REQUEST_BYTES_MAX)
