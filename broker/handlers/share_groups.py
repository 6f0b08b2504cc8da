"""ShareFetch (78), ShareAcknowledge (79): refused, since no records are delivered to share groups yet (KIP-932).

Brokers of Apache Kafka at level 0 of `share.version` list these APIs, too, and answer UNSUPPORTED_VERSION.
"""

from typing import Final

from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from broker.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from broker.wire.errors import ErrorCode

_REFUSAL: Final = "This cluster has no share groups (KIP-932). Consume with a consumer group instead."


def share_fetch(_: BrokerContext, __: ShareFetchRequest) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL)


def share_acknowledge(_: BrokerContext, __: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_REFUSAL)


# These requests follow accepted heartbeats only.
FETCH_HANDLER = Handler(ShareFetchRequest, share_fetch, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
ACKNOWLEDGE_HANDLER = Handler(ShareAcknowledgeRequest, share_acknowledge, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
