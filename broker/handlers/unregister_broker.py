"""UnregisterBroker (key 64): remove the registration of a broker (KIP-631)."""

from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from metadata.protocol import AclOperation


def unregister_broker(context: ControllerContext, request: UnregisterBrokerRequest) -> Work[UnregisterBrokerResponse]:
    yield from in_task(context.services.controller.unregister_broker(request.broker_id, context=context))
    return UnregisterBrokerResponse(error_message=None)


HANDLER = Handler(
    UnregisterBrokerRequest,
    unregister_broker,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(UnregisterBrokerResponse),
    operation=AclOperation.ALTER,
    forwarded=True,
)
