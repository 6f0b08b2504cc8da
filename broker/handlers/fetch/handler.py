"""Fetch (key 1): records from partitions, waiting for them where the client asks (a long poll).

Versions up to 12 name topics, from 13 on they are ids; from 7 on fetch sessions (KIP-227); from 12 on the last fetched
epoch (KIP-595). Consumers get what is committed. Followers get all there is, and with what they ask for they say what
they have.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

import trio

from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.fetch.partition_reads import Reading
from broker.handlers.fetch.readers import Reader, reader_of
from broker.handlers.fetch.throttling import response_bytes_max, throttled_response
from broker.net.completion import RequestWait
from broker.net.reply import PendingReply
from broker.replication.commit_state import READ_COMMITTED
from broker.replication.fetch_sessions import Fetch, TargetKey
from broker.replication.fetch_targets import FetchedPartition, FetchTarget
from broker.replication.partition import Partition
from broker.server.context import RequestContext
from broker.server.slices import STEP_ITEMS, Steps, emptied
from broker.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from broker.wire.errors import KafkaError

_TOPIC_IDS_FROM: Final = 13
_CURRENT_LEADER_FROM: Final = 16
# Partitions that are looked at, and told of, at once. Requests about more are answered in steps.
FEW: Final = 256


def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse | PendingReply:
    if _names_many(request):
        return context.take_turns(_fetch_many(context, request))
    services = context.services
    services.partitions.commit_staged()  # what this turn appended before is to be seen
    reader = reader_of(context, request)
    named, forgotten = _targets(context, request.topics), _forgotten(context, request.forgotten_topics_data)
    try:
        asked = _begin(context, request, reader, named, forgotten)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    max_bytes = response_bytes_max(context, request, reader)
    min_bytes = min(request.min_bytes, max_bytes)
    reading = Reading(context, asked, reader, max_bytes)
    if len(asked.session.due) > FEW:
        return context.take_turns(_read_many(context, request, reading, min_bytes))
    reading.read()
    if request.max_wait_ms <= 0 or reading.is_enough(min_bytes):
        return _respond(context, reading, request.isolation_level)
    wait = FetchWait(context, reading, min_bytes, request.isolation_level)
    for target in asked.targets:
        reading.watch(target)
    return wait.answer(request.max_wait_ms / 1000)


def _names_many(request: FetchRequest) -> bool:
    named = 0
    for topic in request.topics:
        named += len(topic.partitions)
    for forgotten in request.forgotten_topics_data:
        named += len(forgotten.partitions)
    return named > FEW


def _begin(
    context: RequestContext,
    request: FetchRequest,
    reader: Reader,
    named: Sequence[FetchTarget],
    forgotten: Sequence[TargetKey],
    named_count: int = 0,
) -> Fetch:
    """Raises KafkaError."""
    services = context.services
    sessions = services.fetch_sessions
    asked = sessions.begin(
        request.session_id,
        request.session_epoch,
        named,
        forgotten,
        by_topic_id=context.api_version >= _TOPIC_IDS_FROM,
        now_ms=trio.current_time() * 1000,
        follower=reader.incarnation,
        named_count=named_count,
    )
    while sessions.ended:
        context.finish_later(sessions.ended.pop().leave())
    if reader.incarnation is not None and services.partitions.is_former_incarnation(*reader.incarnation):
        asked.session.make_all_due()  # and refuse it
    if asked.session.access_generation != context.server.access_generation:
        asked.session.access_generation = context.server.access_generation
        asked.session.make_all_due()  # it may read less than before, or more
    return asked


def _fetch_many(context: RequestContext, request: FetchRequest) -> Steps[FetchResponse | PendingReply]:
    """As `fetch`, for a request that names many partitions."""
    targets: list[FetchTarget] = []
    step_end = STEP_ITEMS
    for topic in request.topics:
        for first in range(0, len(topic.partitions), STEP_ITEMS):
            some = topic.partitions[first : first + STEP_ITEMS]
            targets += _targets(context, [FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=some)])
            if len(targets) >= step_end:
                step_end = len(targets) + STEP_ITEMS
                yield
    yield from emptied(request.topics)
    context.services.partitions.commit_staged()
    reader = reader_of(context, request)
    try:
        asked = _begin(context, request, reader, targets[:FEW], (), len(targets))
        for first in range(FEW, len(targets), STEP_ITEMS):
            asked.session.update(targets[first : first + STEP_ITEMS], ())
            yield
            asked.check_is_current()
        targets.clear()
        for forgotten in request.forgotten_topics_data:
            asked.session.update((), _forgotten(context, [forgotten]))
            yield
            asked.check_is_current()
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    max_bytes = response_bytes_max(context, request, reader)
    reading = Reading(context, asked, reader, max_bytes)
    response = yield from _read_many(context, request, reading, min(request.min_bytes, max_bytes))
    return response


def _read_many(
    context: RequestContext, request: FetchRequest, reading: Reading, min_bytes: int
) -> Steps[FetchResponse | PendingReply]:
    """Look at many partitions, and answer or wait."""
    wait = FetchWait(context, reading, min_bytes, request.isolation_level)
    try:
        is_late = request.max_wait_ms <= 0
        yield from wait.read_in_steps(is_late=is_late)
        if not is_late and not reading.is_enough(min_bytes):
            return wait.answer(request.max_wait_ms / 1000)
        response = yield from wait.respond_in_steps()
    except GeneratorExit:
        wait.abandon()  # the connection was closed between two steps
        raise
    return response


class FetchWait(RequestWait[bool]):
    """The wait of a fetch for `min_bytes`, or for its deadline, if that comes first.

    Completes with True if everything has to be read again before it is answered. Many partitions are read in steps.
    Those that move meanwhile are `_late`, and read again.
    """

    __slots__ = ("_context", "_isolation_level", "_late", "_min_bytes", "_put_off", "_reading")

    def __init__(self, context: RequestContext, reading: Reading, min_bytes: int, isolation_level: int) -> None:
        super().__init__()
        self._context = context
        self._reading = reading
        self._min_bytes = min_bytes
        self._isolation_level = isolation_level
        self._put_off: dict[FetchTarget, None] = {}
        self._late: dict[FetchTarget, None] | None = None

    def answer(self, seconds: float) -> FetchResponse | PendingReply:
        """Wait for this long at most. Returns the response at once if a later request has ended the wait already."""
        if not self.done:
            self._reading.fetch.session.waiter = self
            self.expire_in(self._context.services.deadlines, seconds, self.expire)
        reply: FetchResponse | PendingReply = self._context.answer(self, self._respond)
        return reply

    def read_in_steps(self, *, is_late: bool) -> Steps[None]:
        """Look at everything, and again at what moves meanwhile, unless the answer `is_late` already.

        Ends early if a later request of the session comes.
        """
        reading = self._reading
        self._late = late = dict[FetchTarget, None]()
        reading.fetch.session.waiter = self
        yield from reading.read_in_steps()
        while late and not is_late and reading.fetch.is_current and not reading.is_enough(self._min_bytes):
            for target in list(islice(late, STEP_ITEMS)):
                del late[target]
                reading.read_one(target)
                reading.watch(target)
            if late:
                yield
        self._late = None

    def respond_in_steps(self) -> Steps[FetchResponse]:
        """The response about many partitions."""
        self.stop_waiting()
        asked = self._reading.fetch
        throttled = throttled_response(self._context, self._reading)
        if throttled is not None:
            yield from asked.end_in_steps()
            return throttled
        fetched = list(self._reading.found.values())
        self._reading.found.clear()
        fetched.reverse()
        response = FetchResponse(session_id=asked.session_id)
        leader_ids: dict[int, None] = {}
        try:
            while fetched:
                some = fetched[: -STEP_ITEMS - 1 : -1]
                _tell(self._context, self._reading, self._isolation_level, some, response.responses, leader_ids)
                del fetched[-STEP_ITEMS:]
                yield
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=asked.session_id)
        yield from asked.end_in_steps()
        response.node_endpoints = _endpoints(self._context, leader_ids)
        return response

    def moved(self, target: FetchTarget, partition: Partition) -> None:
        """The target's partition has moved, and has forgotten the target."""
        reading = self._reading
        if self._late is not None:
            self._late[target] = None
            return
        if not reading.reader.heeds(partition, target):
            self._put_off[target] = None  # it is told with the next answer
            reading.reader.go_on_waiting(partition, target)
            return
        self._put_off.pop(target, None)
        reading.read_one(target)
        if not reading.is_enough(self._min_bytes):
            reading.watch(target)
        elif self._min_bytes > 1:
            self.expire()  # where records were found early, and were too few, they may have been deleted since
        else:
            for other in self._put_off:
                reading.read_one(other)
            self.complete(False)

    def expire(self) -> None:
        """Answer with what there is."""
        self.complete(True)

    def _respond(self, reads_again: bool) -> FetchResponse | Steps[FetchResponse]:
        reading = self._reading
        if reads_again and len(reading.found) > FEW:
            return self._read_again()
        if reads_again:
            reading.read()
        if len(reading.found) > FEW:
            return self.respond_in_steps()
        return _respond(self._context, reading, self._isolation_level)

    def _read_again(self) -> Steps[FetchResponse]:
        yield from self.read_in_steps(is_late=True)
        response = yield from self.respond_in_steps()
        return response

    def stop_waiting(self) -> None:
        session = self._reading.fetch.session
        if session.waiter is self:
            session.waiter = None

    def abandon(self) -> None:
        if self.done:
            return
        super().abandon()
        asked = self._reading.fetch
        if len(asked.session) > FEW:
            self._context.finish_later(asked.end_in_steps())
        else:
            asked.end()


def _respond(context: RequestContext, reading: Reading, isolation_level: int) -> FetchResponse:
    """The response about few partitions."""
    asked = reading.fetch
    throttled = throttled_response(context, reading)
    if throttled is not None:
        asked.end()
        return throttled
    responses: list[FetchableTopicResponse] = []
    leader_ids: dict[int, None] = {}
    try:
        _tell(context, reading, isolation_level, reading.found.values(), responses, leader_ids)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, session_id=asked.session_id)
    finally:
        asked.end()
    return FetchResponse(
        session_id=asked.session_id, responses=responses, node_endpoints=_endpoints(context, leader_ids)
    )


def _tell(
    context: RequestContext,
    reading: Reading,
    isolation_level: int,
    fetched: Iterable[FetchedPartition],
    responses: list[FetchableTopicResponse],
    leader_ids: dict[int, None],
) -> None:
    """Add the partitions of which there is something to tell, and the leaders that they name.

    Raises KafkaError, as `Fetch.select` does.
    """
    selected = reading.fetch.select(fetched)
    reading.reader.sent(selected)
    last: str | bytes | None = None
    if responses:
        last = responses[-1].topic or responses[-1].topic_id
    for found in selected:
        topic = found.target.topic
        if topic != last:
            last = topic
            if isinstance(topic, str):
                responses.append(FetchableTopicResponse(topic=topic))
            else:
                responses.append(FetchableTopicResponse(topic_id=topic))
        data = _partition_data(context, found, isolation_level)
        if data.current_leader is not None:
            leader_ids[data.current_leader.leader_id] = None
        responses[-1].partitions.append(data)


def _endpoints(context: RequestContext, leader_ids: Collection[int]) -> list[NodeEndpoint]:
    """Where these leaders are."""
    if not leader_ids:
        return []
    return [
        NodeEndpoint(node_id=leader.node_id, host=leader.host, port=leader.port, rack=leader.rack)
        for leader in leader_endpoints(context, leader_ids)
    ]


def _partition_data(context: RequestContext, found: FetchedPartition, isolation_level: int) -> PartitionData:
    data = PartitionData(
        partition_index=found.target.index,
        error_code=found.error,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_start_offset=found.log_start_offset,
        aborted_transactions=list(found.aborted) if isolation_level == READ_COMMITTED else None,
        records=b"" if found.records is None else found.records,
    )
    if found.diverging is not None:
        data.diverging_epoch = EpochEndOffset(epoch=found.diverging.epoch, end_offset=found.diverging.end_offset)
    if found.read_replica is not None:
        data.preferred_read_replica = found.read_replica
    if found.error in LEADER_CHANGED and context.api_version >= _CURRENT_LEADER_FROM:
        leader = current_leader(context, found.target.topic, found.target.index)
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
    return data


def _targets(context: RequestContext, topics: Iterable[FetchTopic]) -> list[FetchTarget]:
    by_id = context.api_version >= _TOPIC_IDS_FROM
    return [
        FetchTarget(
            topic.topic_id if by_id else topic.topic,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        )
        for topic in topics
        for partition in topic.partitions
    ]


def _forgotten(context: RequestContext, topics: Iterable[ForgottenTopic]) -> list[TargetKey]:
    by_id = context.api_version >= _TOPIC_IDS_FROM
    return [(topic.topic_id if by_id else topic.topic, index) for topic in topics for index in topic.partitions]
