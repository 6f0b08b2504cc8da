"""SyncGroup (key 14): the response is sent when the leader's assignment is committed."""

from typing import Final

from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_PROTOCOL_FROM: Final = 5


def sync_group(context: BrokerContext, request: SyncGroupRequest) -> Work[SyncGroupResponse]:
    if context.api_version >= _PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    outcome = yield from context.services.groups.sync_group(request)
    return SyncGroupResponse(error_code=outcome.code) if isinstance(outcome, KafkaError) else outcome


# The leader's request has the assignments of all members.
HANDLER = Handler(SyncGroupRequest, sync_group, request_bytes_max=16 * REQUEST_BYTES_MAX)
