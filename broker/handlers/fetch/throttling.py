"""Limits fetches of consumers by client quotas (KIP-219). Followers have replication quotas instead."""

from broker.handlers.fetch.log_reader import LogReader
from broker.handlers.fetch.policies import FetchPolicy
from broker.server.context import RequestContext
from broker.wire.api.fetch import FetchRequest, FetchResponse


def response_bytes_max(context: RequestContext, request: FetchRequest, policy: FetchPolicy) -> int:
    """The maximum size of the response's records, in bytes; a first batch may be larger."""
    max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
    charging = context.server.charging
    if charging is None or policy.is_follower:
        return max_bytes
    return int(min(max_bytes, charging.fetched_bytes_max(context.session, context.client_id)))


def throttled_response(context: RequestContext, reader: LogReader) -> FetchResponse | None:
    """The empty response to a consumer that exceeds a quota, or None. The consumer repeats the fetch (KIP-219).

    A session that the request has created is closed, as the response does not contain its id.
    """
    throttle_time_ms = context.charge(reader.size, is_exempt=reader.policy.is_follower)
    if not throttle_time_ms:
        return None
    if not reader.fetch.is_full:
        return FetchResponse(session_id=reader.fetch.session_id)
    sessions = context.services.fetch_sessions
    sessions.close(reader.fetch)
    while sessions.ended:
        context.finish_later(sessions.ended.pop().leave())
    return FetchResponse()
