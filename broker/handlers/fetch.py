"""Fetch (key 1): records from partitions, waiting for them where the client asks (a long poll).

Versions up to 12 name topics, from 13 on they are ids; from 7 on fetch sessions (KIP-227); from 12 on the last fetched
epoch (KIP-595). Consumers get what is committed. Followers get all there is, and with what they ask for they say what
they have.
"""

from typing import Final

import trio

from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.fetch_readers import reader_of
from broker.handlers.fetch_reading import Reading
from broker.handlers.handler import RequestContext
from broker.net.deadlines import Deadline
from broker.net.reply import Pending
from broker.replication.fetch_sessions import TargetKey
from broker.replication.fetch_targets import FetchedPartition, FetchTarget
from broker.replication.partition import Partition
from broker.replication.replica import READ_COMMITTED
from broker.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from broker.wire.errors import KafkaError

_TOPIC_IDS_FROM: Final = 13
_CURRENT_LEADER_FROM: Final = 16


def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse | Pending:
    services = context.services
    services.partitions.commit_staged()  # what this turn appended before is to be seen
    reader = reader_of(context, request)
    try:
        asked = services.fetch_sessions.begin(
            request.session_id,
            request.session_epoch,
            _targets(context, request),
            _forgotten(context, request),
            by_topic_id=context.api_version >= _TOPIC_IDS_FROM,
            now_ms=trio.current_time() * 1000,
            follower=reader.life,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if reader.life is not None and services.partitions.is_of_former_life(*reader.life):
        asked.session.look_at_all()  # and refuse it
    max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
    min_bytes = min(request.min_bytes, max_bytes)
    reading = Reading(context, asked, reader, max_bytes)
    reading.read()
    if request.max_wait_ms <= 0 or reading.is_enough(min_bytes):
        return _respond(context, reading, request.isolation_level)
    parked = ParkedFetch(context, reading, min_bytes, request.isolation_level)
    parked.wait(request.max_wait_ms / 1000)
    return parked


class ParkedFetch(Pending):
    """A fetch that waits for `min_bytes`, or for its deadline, whichever comes first."""

    __slots__ = ("_context", "_deadline", "_isolation_level", "_min_bytes", "_put_off", "_reading")

    def __init__(self, context: RequestContext, reading: Reading, min_bytes: int, isolation_level: int) -> None:
        super().__init__(context.own_connection)
        self._context = context
        self._reading = reading
        self._min_bytes = min_bytes
        self._isolation_level = isolation_level
        self._put_off: dict[FetchTarget, None] = {}
        self._deadline: Deadline | None = None

    def wait(self, seconds: float) -> None:
        self.on_abandon = self._stop_waiting
        self._deadline = self._context.services.deadlines.add(trio.current_time() + seconds, self.expire)
        asked = self._reading.fetch
        for target in asked.targets:
            self._reading.watch(target)
        asked.session.waiter = self

    def moved(self, target: FetchTarget, partition: Partition) -> None:
        """The target's partition has moved, and has forgotten the target."""
        reading = self._reading
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
            self._answer()

    def expire(self) -> None:
        self._reading.read()
        self._answer()

    def _answer(self) -> None:
        self._stop_waiting()
        self.complete(self._context.encode(_respond(self._context, self._reading, self._isolation_level)))

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        session = self._reading.fetch.session
        if session.waiter is self:
            session.waiter = None
        self._reading.fetch.end()


def _respond(context: RequestContext, reading: Reading, isolation_level: int) -> FetchResponse:
    asked = reading.fetch
    try:
        selected = asked.select(reading.found.values())
    except KafkaError as error:
        return FetchResponse(error_code=error.code, session_id=asked.session_id)
    finally:
        asked.end()
    reading.reader.sent(selected)
    responses: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for found in selected:
        topic = found.target.topic
        if topic != last:
            last = topic
            if isinstance(topic, str):
                responses.append(FetchableTopicResponse(topic=topic))
            else:
                responses.append(FetchableTopicResponse(topic_id=topic))
        responses[-1].partitions.append(_partition_data(context, found, isolation_level))
    return FetchResponse(
        session_id=asked.session_id, responses=responses, node_endpoints=_endpoints(context, responses)
    )


def _endpoints(context: RequestContext, responses: list[FetchableTopicResponse]) -> list[NodeEndpoint]:
    """Of the leaders that the response names."""
    leader_ids = [
        partition.current_leader.leader_id
        for topic in responses
        for partition in topic.partitions
        if partition.current_leader is not None
    ]
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
        aborted_transactions=[] if isolation_level == READ_COMMITTED else None,
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


def _targets(context: RequestContext, request: FetchRequest) -> list[FetchTarget]:
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
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(context: RequestContext, request: FetchRequest) -> list[TargetKey]:
    by_id = context.api_version >= _TOPIC_IDS_FROM
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
