"""ShareGroupHeartbeat (76), ShareFetch (78), ShareAcknowledge (79): refused, since there are no share groups (KIP-932).

Brokers of Apache Kafka at level 0 of `share.version` list these APIs, too, and answer UNSUPPORTED_VERSION. Share
consumers of Kafka and of librdkafka fail at once then. If a broker did not list ShareGroupHeartbeat, librdkafka would
take it for a coordinator that has failed, and look the coordinator up again, for ever, without an error.
"""

from typing import Final

from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from broker.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from broker.wire.errors import ErrorCode

_REFUSAL: Final = "This cluster has no share groups (KIP-932). Consume with a consumer group instead."


def share_group_heartbeat(_: BrokerContext, __: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL)


def share_fetch(_: BrokerContext, __: ShareFetchRequest) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL)


def share_acknowledge(_: BrokerContext, __: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL)


# A heartbeat can name the topics of a large subscription. The other requests follow accepted heartbeats only.
HEARTBEAT_HANDLER = Handler(ShareGroupHeartbeatRequest, share_group_heartbeat, request_bytes_max=REQUEST_BYTES_MAX // 4)
FETCH_HANDLER = Handler(ShareFetchRequest, share_fetch, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
ACKNOWLEDGE_HANDLER = Handler(ShareAcknowledgeRequest, share_acknowledge, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
