"""ConsumerGroupHeartbeat (key 68): members of consumer groups join, keep their session, and leave (KIP-848)."""

from broker.handlers.authorization import member_refusal
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.wire.errors import KafkaError


def consumer_group_heartbeat(
    context: BrokerContext, request: ConsumerGroupHeartbeatRequest
) -> Work[ConsumerGroupHeartbeatResponse]:
    outcome: ConsumerGroupHeartbeatResponse | KafkaError | None = member_refusal(
        context, request.group_id, request.subscribed_topic_names or ()
    )
    if outcome is None:
        outcome = yield from context.services.groups.consumer_group_heartbeat(request, context)
    if isinstance(outcome, KafkaError):
        return ConsumerGroupHeartbeatResponse(error_code=outcome.code, error_message=message_of(outcome))
    return outcome


HANDLER = Handler(ConsumerGroupHeartbeatRequest, consumer_group_heartbeat)
