"""UnregisterController (key 94): remove the registration of a controller (KIP-1312)."""

from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from metadata.protocol import AclOperation


def unregister_controller(
    context: ControllerContext, request: UnregisterControllerRequest
) -> Work[UnregisterControllerResponse]:
    yield from in_task(context.services.controller.registrations.unregister(request.controller_id, context=context))
    return UnregisterControllerResponse(error_message=None)


HANDLER = Handler(
    UnregisterControllerRequest,
    unregister_controller,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(UnregisterControllerResponse),
    operation=AclOperation.ALTER,
    forwarded=True,
)
