"""How a quota of its consumer limits a fetch (KIP-219). Followers are limited by quotas of their own."""

from broker.handlers.fetch.partition_reads import Reading
from broker.handlers.fetch.readers import Reader
from broker.server.context import RequestContext
from broker.wire.api.fetch import FetchRequest, FetchResponse


def response_bytes_max(context: RequestContext, request: FetchRequest, reader: Reader) -> int:
    """How many bytes of records the response may carry, apart from a first batch that is larger."""
    max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
    charging = context.server.charging
    if charging is None or reader.is_follower:
        return max_bytes
    return int(min(max_bytes, charging.fetched_bytes_max(context.session, context.client_id)))


def throttled_response(context: RequestContext, reading: Reading) -> FetchResponse | None:
    """The response to a consumer that exceeds a quota: nothing is told, so it asks for the same again (KIP-219).

    It takes no notice of a session that the request has opened.
    """
    throttle_time_ms = context.charge(reading.size, is_exempt=reading.reader.is_follower)
    if not throttle_time_ms:
        return None
    if not reading.fetch.is_full:
        return FetchResponse(session_id=reading.fetch.session_id)
    sessions = context.services.fetch_sessions
    sessions.close(reading.fetch)
    while sessions.ended:
        context.finish_later(sessions.ended.pop().leave())
    return FetchResponse()
