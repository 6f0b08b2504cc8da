"""Limits fetches of consumers by client quotas (KIP-219). Followers have replication quotas instead."""

from functools import cache
from typing import Final

from broker.handlers.fetch.log_reader import LogReader
from broker.handlers.fetch.policies import FetchPolicy
from broker.server.context import BrokerContext
from broker.wire.api.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from broker.wire.codec import encoder
from kraft import lazy_attrs

# Kafka counts the four bytes of the response's length, and not its header.
FRAME_LENGTH_BYTES: Final = 4


@lazy_attrs.frozen
class ResponseSizes:
    """The sizes in bytes of the parts of a Fetch response: without topics, one topic without its name, and so on.

    Lengths of up to 127 bytes are assumed where they are compact, and no fields that only errors have. The sum differs
    from the encoded size by a few bytes per partition at most.
    """

    empty: int
    topic: int
    partition: int
    aborted_transaction: int

    @classmethod
    def of(cls, version: int) -> "ResponseSizes":
        """Measure the sizes in one version of the API."""

        def size(*topics: FetchableTopicResponse) -> int:
            return sum(map(len, encoder(FetchResponse, version)(FetchResponse(responses=list(topics)))))

        def partition(*aborted: AbortedTransaction) -> FetchableTopicResponse:
            data = PartitionData(aborted_transactions=list(aborted), records=b"")
            return FetchableTopicResponse(partitions=[data])

        empty, topic, one = size(), size(FetchableTopicResponse()), size(partition())
        return cls(empty, topic - empty, one - topic, size(partition(AbortedTransaction())) - one)


response_sizes: Final = cache(ResponseSizes.of)


def response_bytes(context: BrokerContext, reader: LogReader) -> int:
    """The size of the response to a consumer with the results of `reader`, see `ResponseSizes`."""
    sizes = response_sizes(context.api_version)
    count = aborted = 0
    topics: set[str | bytes] = set()
    for found in reader.results.values():
        if reader.fetch.is_full or found.differs_from_sent:
            count += 1
            aborted += len(found.aborted)
            topics.add(found.cached.topic)
    names = sum(len(topic.encode()) for topic in topics if isinstance(topic, str))
    parts = len(topics) * sizes.topic + count * sizes.partition + aborted * sizes.aborted_transaction
    return FRAME_LENGTH_BYTES + sizes.empty + parts + names + reader.size


def response_bytes_max(context: BrokerContext, request: FetchRequest, policy: FetchPolicy) -> int:
    """The maximum size of the response's records, in bytes; a first batch may be larger."""
    max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
    charging = context.server.charging
    if charging is None or policy.is_follower:
        return max_bytes
    return int(min(max_bytes, charging.fetched_bytes_max(context.session, context.client_id)))


def throttled_response(context: BrokerContext, reader: LogReader) -> FetchResponse | None:
    """The empty response to a consumer that exceeds a quota, or None. The consumer repeats the fetch (KIP-219).

    A session that the request has created is closed, as the response does not contain its id.
    """
    if context.server.charging is None:
        return None
    is_follower = reader.policy.is_follower
    throttle_time_ms = context.charge(
        reader.size if is_follower else response_bytes(context, reader), is_exempt=is_follower
    )
    if not throttle_time_ms:
        return None
    if not reader.fetch.is_full:
        return FetchResponse(session_id=reader.fetch.session_id)
    sessions = context.services.fetch_sessions
    sessions.close(reader.fetch)
    while sessions.ended:
        context.finish_later(sessions.ended.pop().stop_waiting())
    return FetchResponse()
