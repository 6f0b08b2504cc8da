"""ControllerRegistration (key 70): a controller registers with the active controller (KIP-919)."""

from broker.controller_client.registrations import from_wire
from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from metadata.controller import ControllerRegistration
from metadata.protocol import AclOperation


def register_controller(
    context: ControllerContext, request: ControllerRegistrationRequest
) -> Work[ControllerRegistrationResponse]:
    end_points, features = from_wire(request.listeners, request.features)
    yield from in_task(
        context.services.controller.registrations.register(
            ControllerRegistration(
                controller_id=request.controller_id,
                incarnation_id=request.incarnation_id,
                end_points=end_points,
                features=features,
            )
        )
    )
    return ControllerRegistrationResponse(error_message=None)


HANDLER = Handler(
    ControllerRegistrationRequest,
    register_controller,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(ControllerRegistrationResponse),
    operation=AclOperation.CLUSTER_ACTION,
)
