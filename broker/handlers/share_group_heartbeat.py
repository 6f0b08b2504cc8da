"""ShareGroupHeartbeat (key 76): members of share groups join, keep their session, and leave (KIP-932).

Brokers list this API at level 0 of `share.version`, too, as those of Apache Kafka do, and answer UNSUPPORTED_VERSION.
Share consumers of Kafka and of librdkafka fail at once then. If a broker did not list it, librdkafka would take it for
a coordinator that has failed, and look the coordinator up again, for ever, without an error.
"""

from broker.handlers.authorization import member_refusal
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import KafkaError


def share_group_heartbeat(
    context: BrokerContext, request: ShareGroupHeartbeatRequest
) -> Work[ShareGroupHeartbeatResponse]:
    groups = context.services.shares.groups
    outcome: ShareGroupHeartbeatResponse | KafkaError | None = groups.refusal() or member_refusal(
        context, request.group_id, request.subscribed_topic_names or ()
    )
    if outcome is None:
        outcome = yield from groups.heartbeat(request, context)
    if isinstance(outcome, KafkaError):
        return ShareGroupHeartbeatResponse(error_code=outcome.code, error_message=message_of(outcome))
    return outcome


# It can name the topics of a large subscription.
HANDLER = Handler(ShareGroupHeartbeatRequest, share_group_heartbeat, request_bytes_max=REQUEST_BYTES_MAX // 4)
