"""JoinGroup (key 11): the response is sent when the generation of the member begins."""

from broker.handlers.authorization import refusal
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_REBALANCE_TIMEOUT_FROM = 1
_NULL_PROTOCOL_FROM = 7
# Responses with these errors have an empty member id.
_WITHOUT_MEMBER_ID = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_AUTHORIZATION_FAILED})


def join_group(context: BrokerContext, request: JoinGroupRequest) -> Work[JoinGroupResponse]:
    version = context.api_version
    if version < _REBALANCE_TIMEOUT_FROM:
        request.rebalance_timeout_ms = request.session_timeout_ms
    outcome: JoinGroupResponse | KafkaError
    if context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        outcome = yield from context.services.groups.join_group(request, context)
    else:
        outcome = refusal(ResourceType.GROUP)
    if isinstance(outcome, KafkaError):
        member_id = "" if outcome.code in _WITHOUT_MEMBER_ID else request.member_id
        outcome = JoinGroupResponse(error_code=outcome.code, member_id=member_id)
    if version >= _NULL_PROTOCOL_FROM:
        outcome.protocol_name = None if outcome.error_code else outcome.protocol_name or None
    elif outcome.protocol_name is None:
        outcome.protocol_name = ""
    return outcome


# Members of Connect and Streams send their whole state with each of their protocols.
HANDLER = Handler(JoinGroupRequest, join_group, request_bytes_max=4 * REQUEST_BYTES_MAX)
