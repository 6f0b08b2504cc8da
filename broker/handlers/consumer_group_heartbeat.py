"""ConsumerGroupHeartbeat (key 68): members of consumer groups join, keep their session, and leave (KIP-848)."""

from broker.handlers.authorization import refusal
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.wire.errors import KafkaError
from metadata.protocol import AclOperation, ResourceType


def consumer_group_heartbeat(
    context: BrokerContext, request: ConsumerGroupHeartbeatRequest
) -> Work[ConsumerGroupHeartbeatResponse]:
    outcome: ConsumerGroupHeartbeatResponse | KafkaError | None = _refusal(context, request)
    if outcome is None:
        outcome = yield from context.services.groups.consumer_group_heartbeat(request, context)
    if isinstance(outcome, KafkaError):
        return ConsumerGroupHeartbeatResponse(error_code=outcome.code, error_message=message_of(outcome))
    return outcome


def _refusal(context: BrokerContext, request: ConsumerGroupHeartbeatRequest) -> KafkaError | None:
    """The error for a client that may not use the group, or may not describe all topics that it subscribes to."""
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refusal(ResourceType.GROUP)
    topics = request.subscribed_topic_names or ()
    if all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return None
    return refusal(ResourceType.TOPIC)


HANDLER = Handler(ConsumerGroupHeartbeatRequest, consumer_group_heartbeat)
