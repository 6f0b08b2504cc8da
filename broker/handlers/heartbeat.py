"""Heartbeat (key 12): keeps a member's session, and tells the member whether to join again."""

from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType


def heartbeat(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    outcome = yield from context.services.groups.heartbeat(request)
    code = outcome.code if isinstance(outcome, KafkaError) else outcome
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # This broker is the coordinator; it starts the member's session when the group is loaded.
        code = ErrorCode.NONE
    return HeartbeatResponse(error_code=code)


HANDLER = Handler(HeartbeatRequest, heartbeat, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
