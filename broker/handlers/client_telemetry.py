"""GetTelemetrySubscriptions and PushTelemetry (keys 71 and 72): clients push their metrics (KIP-714)."""

from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.slices import Steps
from broker.telemetry import ClientTelemetry, TelemetryClient
from broker.wire.api.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.wire.api.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def get_telemetry_subscriptions(
    context: BrokerContext, request: GetTelemetrySubscriptionsRequest
) -> Steps[GetTelemetrySubscriptionsResponse]:
    response = yield from _telemetry(context).get_subscriptions(request, _client(context))
    return response


def push_telemetry(context: BrokerContext, request: PushTelemetryRequest) -> Steps[PushTelemetryResponse]:
    response = yield from _telemetry(context).push(request, _client(context))
    return response


def _telemetry(context: BrokerContext) -> ClientTelemetry:
    telemetry = context.services.telemetry
    assert telemetry is not None, "these APIs are served with it"
    return telemetry


def _client(context: BrokerContext) -> TelemetryClient:
    software_name, software_version = context.session.client_software
    attributes = {
        "client_software_name": software_name,
        "client_software_version": software_version,
        "client_source_address": context.client_host,
    }
    if context.client_id is not None:
        attributes["client_id"] = context.client_id
    return TelemetryClient(context.connection, attributes)


GET_HANDLER = Handler(
    GetTelemetrySubscriptionsRequest, get_telemetry_subscriptions, request_bytes_max=SMALL_REQUEST_BYTES_MAX
)
# A push of more than telemetry.max.bytes, by default 1 MiB, has an error of its own. A much larger one closes the
# connection.
PUSH_HANDLER = Handler(PushTelemetryRequest, push_telemetry, request_bytes_max=16 * REQUEST_BYTES_MAX)
