"""ShareGroupHeartbeat (key 76): members of share groups join, keep their session, and leave (KIP-932).

Brokers list this API at level 0 of `share.version`, too, as those of Apache Kafka do, and answer UNSUPPORTED_VERSION.
Share consumers of Kafka and of librdkafka fail at once then. If a broker did not list it, librdkafka would take it for
a coordinator that has failed, and look the coordinator up again, for ever, without an error.
"""

from broker.handlers.authorization import refusal
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import KafkaError
from metadata.protocol import AclOperation, ResourceType


def share_group_heartbeat(
    context: BrokerContext, request: ShareGroupHeartbeatRequest
) -> Work[ShareGroupHeartbeatResponse]:
    groups = context.services.shares.groups
    outcome: ShareGroupHeartbeatResponse | KafkaError | None = groups.refusal() or _refusal(context, request)
    if outcome is None:
        outcome = yield from groups.heartbeat(request, context)
    if isinstance(outcome, KafkaError):
        return ShareGroupHeartbeatResponse(error_code=outcome.code, error_message=message_of(outcome))
    return outcome


def _refusal(context: BrokerContext, request: ShareGroupHeartbeatRequest) -> KafkaError | None:
    """The error for a client that may not use the group, or may not describe all topics that it subscribes to."""
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refusal(ResourceType.GROUP)
    topics = request.subscribed_topic_names or ()
    if all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return None
    return refusal(ResourceType.TOPIC)


# It can name the topics of a large subscription.
HANDLER = Handler(ShareGroupHeartbeatRequest, share_group_heartbeat, request_bytes_max=REQUEST_BYTES_MAX // 4)
