"""BrokerHeartbeat (key 63): keeps a broker's session, and tells it whether it is fenced (KIP-631).

Served by controllers only. A broker sends its heartbeats over one connection. When that closes, the controller suspects
that the broker has stopped, before its session expires.

Version 2 names cordoned log directories (KIP-1066).
"""

from broker.handlers.response_errors import error_response
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from metadata.controller import BrokerHeartbeat
from metadata.protocol import AclOperation


def heartbeat(context: ControllerContext, request: BrokerHeartbeatRequest) -> Work[BrokerHeartbeatResponse]:
    if context.connection is not None:
        # Before the answer, since the connection may close until then. A refused epoch belongs to no broker.
        context.services.heartbeat_connections.record_heartbeat(
            request.broker_id, request.broker_epoch, context.connection
        )
    reply = yield from in_task(
        context.services.controller.broker_heartbeat(
            BrokerHeartbeat(
                broker_id=request.broker_id,
                broker_epoch=request.broker_epoch,
                current_metadata_offset=request.current_metadata_offset,
                want_fence=request.want_fence,
                want_shut_down=request.want_shut_down,
                offline_log_dirs=request.offline_log_dirs,
                cordoned_log_dirs=request.cordoned_log_dirs,
            )
        )
    )
    return BrokerHeartbeatResponse(
        is_caught_up=reply.is_caught_up, is_fenced=reply.is_fenced, should_shut_down=reply.should_shut_down
    )


HANDLER = Handler(
    BrokerHeartbeatRequest,
    heartbeat,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(BrokerHeartbeatResponse),
    operation=AclOperation.CLUSTER_ACTION,
    concurrent=True,
)
