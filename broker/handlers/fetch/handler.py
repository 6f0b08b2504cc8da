"""Fetch (key 1): returns records from partitions, and waits for `min_bytes` of them if the client asks for that.

Requests name topics up to version 12, and carry topic ids from version 13. Version 7 adds fetch sessions (KIP-227),
version 12 the last fetched epoch (KIP-595). Consumers receive committed records only. Followers receive everything up
to the log's end; their fetch offset tells the leader how much they have replicated.
"""

from collections.abc import Collection, Iterable, Sequence, Sized
from contextlib import suppress
from typing import Final

import trio

from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.fetch.log_reader import LogReader
from broker.handlers.fetch.policies import FetchPolicy, fetch_policy
from broker.handlers.fetch.reply_template import READ_NOW_MAX
from broker.handlers.fetch.throttling import response_bytes_max, throttled_response
from broker.net.completion import RequestWait
from broker.net.reply import FileRange
from broker.replication.cached_partition import CachedPartition, FetchedPartition
from broker.replication.commit_state import READ_COMMITTED
from broker.replication.fetch_sessions import CachedPartitionKey, Fetch
from broker.replication.partition import Partition
from broker.server.context import BrokerContext
from broker.server.scheduler import Work
from broker.server.slices import STEP_ITEMS, Steps, freed
from broker.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from broker.wire.errors import KafkaError

_TOPIC_IDS_FROM: Final = 13
# Any negative leader epoch or last fetched epoch stands for none.
_NO_EPOCH: Final = -1
_CURRENT_LEADER_FROM: Final = 16
# Partitions that one step takes from a request, or adds to a session.
_STEP_NAMED: Final = 256


def fetch(context: BrokerContext, request: FetchRequest) -> Work[FetchResponse]:
    named = yield from _cached_partitions(context, request.topics)
    forgotten = (yield from _forgotten(context, request)) if request.forgotten_topics_data else []
    if len(named) + len(forgotten) > _STEP_NAMED:
        yield from freed(request)  # the scheduler keeps it, and its partitions need no memory while the fetch waits
    context.services.partitions.commit_staged()  # records appended earlier in this turn become readable
    policy = fetch_policy(context, request)
    try:
        session_fetch = _begin(context, request, policy, named, forgotten)
        if len(named) + len(forgotten) > _STEP_NAMED:
            yield from _add_remaining(session_fetch, named, forgotten)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    max_bytes = response_bytes_max(context, request, policy)
    min_bytes = min(request.min_bytes, max_bytes)
    max_wait_ms, isolation_level = request.max_wait_ms, request.isolation_level
    del request, named, forgotten
    reader = LogReader(context, session_fetch, policy, max_bytes)
    try:
        yield from reader.read(min_bytes, is_expired=max_wait_ms <= 0)
        if max_wait_ms > 0 and session_fetch.is_current and not reader.can_respond(min_bytes):
            reads_again = yield from DelayedFetch(context, reader, min_bytes, max_wait_ms)
            if reads_again:
                yield from reader.read(min_bytes, is_expired=True)
        return (yield from _respond(context, reader, isolation_level))
    except BaseException:  # the connection was closed, or the handler has a bug
        context.finish_later(session_fetch.end())
        raise


def _begin(
    context: BrokerContext,
    request: FetchRequest,
    policy: FetchPolicy,
    named: Sequence[CachedPartition],
    forgotten: Sequence[CachedPartitionKey],
) -> Fetch:
    """Start the request in its fetch session, or in a new one, with the first partitions. Raises KafkaError.

    All partitions become due if the follower is a former incarnation, which is then refused for each of them, or if
    ACLs, quotas or the isolation level have changed since the session's previous request.
    """
    services = context.services
    sessions = services.fetch_sessions
    session_fetch = sessions.begin(
        request.session_id,
        request.session_epoch,
        named[:_STEP_NAMED],
        forgotten[: _forgotten_at_once(named)],
        by_topic_id=context.api_version >= _TOPIC_IDS_FROM,
        now_ms=trio.current_time() * 1000,
        follower=policy.incarnation,
        named_count=len(named),
    )
    while sessions.ended:
        context.finish_later(sessions.ended.pop().stop_waiting())
    session, generation = session_fetch.session, context.server.access_generation
    if policy.incarnation is not None and services.partitions.context.is_former_incarnation(*policy.incarnation):
        session.make_all_due()
    if session.access_generation != generation or session.isolation_level != request.isolation_level:
        session.access_generation, session.isolation_level = generation, request.isolation_level
        session.make_all_due()
    return session_fetch


def _forgotten_at_once(named: Sequence[CachedPartition]) -> int:
    """The number of forgotten partitions to remove in the first step: none if named ones remain to be added."""
    return _STEP_NAMED if len(named) <= _STEP_NAMED else 0


def _add_remaining(
    session_fetch: Fetch, named: Sequence[CachedPartition], forgotten: Sequence[CachedPartitionKey]
) -> Steps[None]:
    """Add and remove the partitions beyond the first step. Raises KafkaError if a later request arrives."""
    for first in range(_STEP_NAMED, len(named), _STEP_NAMED):
        yield
        session_fetch.check_is_current()
        session_fetch.session.update(named[first : first + _STEP_NAMED], ())
    for first in range(_forgotten_at_once(named), len(forgotten), _STEP_NAMED):
        yield
        session_fetch.check_is_current()
        session_fetch.session.update((), forgotten[first : first + _STEP_NAMED])


class DelayedFetch(RequestWait[bool]):
    """A fetch request that has read its partitions, and waits until `min_bytes` are readable or its deadline expires.

    Completes with True if all partitions have to be read again for the response.
    """

    __slots__ = ("_context", "_deferred", "_min_bytes", "_reader")

    def __init__(self, context: BrokerContext, reader: LogReader, min_bytes: int, max_wait_ms: int) -> None:
        super().__init__()
        self._context = context
        self._reader = reader
        self._min_bytes = min_bytes
        self._deferred: dict[CachedPartition, None] = {}
        reader.fetch.session.waiter = self
        reader.watch_all()
        self.expire_in(context.services.deadlines, max_wait_ms / 1000, self.expire)

    def moved(self, cached: CachedPartition, partition: Partition) -> None:
        """See `broker.replication.fetch_sessions.Waiter`. Reads the partition again, and responds if that is enough."""
        self._context.timed_call(lambda: self._read_moved(cached, partition))

    def _read_moved(self, cached: CachedPartition, partition: Partition) -> None:
        reader = self._reader
        if not reader.policy.must_reread(partition, cached):
            self._deferred[cached] = None  # its new high watermark goes into the next response
            reader.policy.add_reread_waiter(partition, cached)
            return
        self._deferred.pop(cached, None)
        reader.read_one(cached)
        if not reader.can_respond(self._min_bytes):
            reader.watch(cached)
        elif self._min_bytes > 1:
            self.expire()  # records that were read earlier, and were too few then, may have been deleted since
        else:
            for other in self._deferred:
                reader.read_one(other)
            self.complete(False)

    def expire(self) -> None:
        """Respond with the records that are readable now."""
        self.complete(True)

    def stop_waiting(self) -> None:
        session = self._reader.fetch.session
        if session.waiter is self:
            session.waiter = None


def respond_again(context: BrokerContext, reader: LogReader, isolation_level: int) -> Work[FetchResponse]:
    """The response to a request that has waited: with what is readable now, in all partitions that have changed."""
    yield from reader.read(0, is_expired=True)
    return (yield from _respond(context, reader, isolation_level))


def _respond(context: BrokerContext, reader: LogReader, isolation_level: int) -> Steps[FetchResponse]:
    """The response with the results. The results are freed in steps."""
    session_fetch = reader.fetch
    response = throttled_response(context, reader)
    if response is None:
        response = FetchResponse(session_id=session_fetch.session_id)
        fetched = list(reader.results.values())
        reader.results.clear()
        fetched.reverse()
        leader_ids: dict[int, None] = {}
        try:
            while fetched:
                some = fetched[: -STEP_ITEMS - 1 : -1]
                _add_responses(context, reader, isolation_level, some, response.responses, leader_ids)
                del fetched[-STEP_ITEMS:]
                if fetched:
                    yield
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=session_fetch.session_id)
        response.node_endpoints = _endpoints(context, leader_ids)
    yield from session_fetch.end()
    return response


def _add_responses(
    context: BrokerContext,
    reader: LogReader,
    isolation_level: int,
    fetched: Iterable[FetchedPartition],
    responses: list[FetchableTopicResponse],
    leader_ids: dict[int, None],
) -> None:
    """Add the results that the client does not know yet to `responses`, and the leaders they name to `leader_ids`.

    Raises KafkaError, as `Fetch.select` does.
    """
    selected = reader.fetch.select(fetched)
    reader.policy.record_sent_bytes(selected)
    last: str | bytes | None = None
    if responses:
        last = responses[-1].topic or responses[-1].topic_id
    for found in selected:
        topic = found.cached.topic
        if topic != last:
            last = topic
            if isinstance(topic, str):
                responses.append(FetchableTopicResponse(topic=topic))
            else:
                responses.append(FetchableTopicResponse(topic_id=topic))
        data = _partition_data(context, found, isolation_level)
        if found.records is not None:
            data.records = _loaded(found.records) if reader.size <= READ_NOW_MAX else found.records
        if data.current_leader is not None:
            leader_ids[data.current_leader.leader_id] = None
        responses[-1].partitions.append(data)


def _loaded(records: Sized) -> Sized:
    """The bytes of a range of a file; the range if they cannot be read: then the connection cannot send it either.

    A small response is one buffer then, which costs half as much to send as the ranges of its partitions.
    """
    assert isinstance(records, FileRange), "made by LogReader"
    with suppress(OSError):
        data = records.file.read(records.position, records.size)
        if len(data) == records.size:
            return data
    return records


def _endpoints(context: BrokerContext, leader_ids: Collection[int]) -> list[NodeEndpoint]:
    """The endpoints of these leaders."""
    if not leader_ids:
        return []
    return [
        NodeEndpoint(node_id=leader.node_id, host=leader.host, port=leader.port, rack=leader.rack)
        for leader in leader_endpoints(context, leader_ids)
    ]


def _partition_data(context: BrokerContext, found: FetchedPartition, isolation_level: int) -> PartitionData:
    data = PartitionData(
        partition_index=found.cached.index,
        error_code=found.error,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_start_offset=found.log_start_offset,
        aborted_transactions=list(found.aborted) if isolation_level == READ_COMMITTED and not found.error else None,
        records=b"",
    )
    if found.diverging is not None:
        data.diverging_epoch = EpochEndOffset(epoch=found.diverging.epoch, end_offset=found.diverging.end_offset)
    if found.read_replica is not None:
        data.preferred_read_replica = found.read_replica
    if found.error in LEADER_CHANGED and context.api_version >= _CURRENT_LEADER_FROM:
        leader = current_leader(context, found.cached.topic, found.cached.index)
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
    return data


def _cached_partitions(context: BrokerContext, topics: Iterable[FetchTopic]) -> Steps[list[CachedPartition]]:
    """The partitions that a request names."""
    by_id = context.api_version >= _TOPIC_IDS_FROM
    named: list[CachedPartition] = []
    for topic in topics:
        key = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            named.append(
                CachedPartition(
                    key,
                    partition.partition,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    max(partition.current_leader_epoch, _NO_EPOCH),
                    max(partition.last_fetched_epoch, _NO_EPOCH),
                    partition.log_start_offset,
                )
            )
            if not len(named) % _STEP_NAMED:
                yield
    return named


def _forgotten(context: BrokerContext, request: FetchRequest) -> Steps[list[CachedPartitionKey]]:
    """The partitions to remove from the session."""
    by_id = context.api_version >= _TOPIC_IDS_FROM
    forgotten: list[CachedPartitionKey] = []
    for topic in request.forgotten_topics_data:
        key = topic.topic_id if by_id else topic.topic
        for index in topic.partitions:
            forgotten.append((key, index))
            if not len(forgotten) % _STEP_NAMED:
                yield
    return forgotten
