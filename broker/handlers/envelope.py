"""Envelope (key 58): a client's request that a broker forwards to the controller (KIP-590).

The embedded response has the correlation id of the client's request. Errors of the envelope itself are for the broker:
after NOT_CONTROLLER it looks for the active controller again.
"""

import ipaddress

from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.envelope import EnvelopeRequest, EnvelopeResponse
from broker.wire.errors import ErrorCode, KafkaError, WireError
from metadata.protocol import AclOperation


def envelope(context: ControllerContext, request: EnvelopeRequest) -> Work[EnvelopeResponse]:
    try:
        principal, client_host = _sender(request)
        if not context.server.is_forwarded(request.request_data):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "this API is not forwarded")
        response = yield from in_task(
            context.server.execute(request.request_data, principal=principal, client_host=client_host)
        )
    except (ValueError, WireError):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    return EnvelopeResponse(response_data=response)


def _sender(request: EnvelopeRequest) -> tuple[str, str]:
    """The client's principal and address. Raises ValueError."""
    principal = (request.request_principal or b"").decode()
    if not all(principal.partition(":")):
        raise ValueError(f"{principal!r} is not the principal of a client")
    return principal, str(ipaddress.ip_address(request.client_host_address))


# The largest request that is forwarded, with the principal and the address of its client.
HANDLER = Handler(
    EnvelopeRequest,
    envelope,
    request_bytes_max=3 * REQUEST_BYTES_MAX,
    refused=error_response(EnvelopeResponse),
    concurrent=True,
    operation=AclOperation.CLUSTER_ACTION,
)
