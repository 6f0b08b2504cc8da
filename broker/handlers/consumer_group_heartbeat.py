"""ConsumerGroupHeartbeat (key 68): members of consumer groups join, keep their session, and leave (KIP-848)."""

from broker.coordinator.runtime.decision import CoordinatorError
from broker.net.reply import PendingReply
from broker.server.context import RequestContext
from broker.server.handler import Handler
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def consumer_group_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | PendingReply:
    return context.answer(context.services.groups.consumer_group_heartbeat(request, context), _respond)


def _respond(outcome: ConsumerGroupHeartbeatResponse | CoordinatorError) -> ConsumerGroupHeartbeatResponse:
    if isinstance(outcome, CoordinatorError):
        return ConsumerGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.message or None)
    return outcome


HANDLER = Handler(ConsumerGroupHeartbeatRequest, consumer_group_heartbeat)
