"""Fetch (key 1): records from partitions, waiting for them where the client asks (a long poll).

Versions up to 12 name topics, from 13 on they are ids; from 7 on fetch sessions (KIP-227); from 12 on the last fetched
epoch (KIP-595). Consumers get what is committed. Followers get all there is, and with what they ask for they say what
they have.
"""

from typing import Final

import trio

from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.fetch_readers import Reader, reader_of
from broker.handlers.handler import RequestContext
from broker.net.deadlines import Deadline
from broker.net.reply import FileRange, Pending
from broker.replication.fetch_sessions import Fetch, FetchedPartition, FetchTarget, TargetKey
from broker.replication.leading import DivergingEpoch, diverging_epoch
from broker.replication.partition import Partition
from broker.replication.replica import READ_COMMITTED
from broker.storage.log import Log
from broker.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from broker.wire.errors import ErrorCode, KafkaError

_TOPIC_IDS_FROM: Final = 13
_CURRENT_LEADER_FROM: Final = 16
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
# Clients of these versions do not know KAFKA_STORAGE_ERROR, but refresh their metadata on this one.
_STORAGE_ERROR_FROM: Final = 6
# Clients of these versions cannot read zstd; a topic that is known to be stored so is refused to them (KIP-110).
ZSTD_FROM: Final = 10


def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse | Pending:
    services = context.services
    services.partitions.commit_staged()  # what this turn appended before is to be seen
    try:
        session = services.fetch_sessions.begin(
            request.session_id,
            request.session_epoch,
            _targets(context, request),
            _forgotten(context, request),
            by_topic_id=context.api_version >= _TOPIC_IDS_FROM,
            now_ms=services.now_ms(),
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
    reading = Reading(context, session, reader_of(context, request), request.isolation_level, max_bytes)
    min_bytes = min(request.min_bytes, max_bytes)
    fetched = reading.read()
    if request.max_wait_ms <= 0 or reading.is_enough(fetched, min_bytes):
        return reading.respond(fetched)
    parked = ParkedFetch(context, reading, min_bytes, fetched)
    parked.wait(request.max_wait_ms / 1000)
    return parked


class Reading:
    """One fetch request's plan, which may be carried out more than once while it waits."""

    __slots__ = ("_absent_before", "_context", "_is_noted", "_isolation_level", "_max_bytes", "reader", "session")

    def __init__(
        self,
        context: RequestContext,
        session: Fetch,
        reader: Reader,
        isolation_level: int,
        max_bytes: int,
    ) -> None:
        self._context = context
        self._isolation_level = isolation_level
        self._max_bytes = max_bytes
        self._absent_before = -1
        self._is_noted = False
        self.reader = reader
        self.session = session

    def partitions(self) -> dict[Partition, int]:
        """Those that exist here, for waiting on them, each with its place among what is read."""
        topics = self._context.services.partitions
        found = {}
        for place, target in enumerate(self.session.targets):
            topic = topics.topic(target.topic)
            if topic is not None and (partition := topic.partitions.get(target.index)) is not None:
                found[partition] = place
        return found

    def read(self) -> list[FetchedPartition]:
        """Plan what to send, in the request's order, within its limits; touches no record (KIP-74)."""
        left = self._max_bytes
        is_first = True
        fetched = []
        for target in self.session.targets:
            partition = self._read_one(target, max(left, 0), is_first=is_first)
            if partition.records is not None:
                left -= len(partition.records)
                is_first = False
            fetched.append(partition)
        self._is_noted = True
        return fetched

    def read_again(self, fetched: list[FetchedPartition], place: int) -> None:
        """One partition has moved; the others are what they were, and looking at them all would cost what there is."""
        others = [each.records for at, each in enumerate(fetched) if at != place and each.records is not None]
        left = self._max_bytes - sum(map(len, others))
        fetched[place] = self._read_one(fetched[place].target, max(left, 0), is_first=not others)

    def is_enough(self, fetched: list[FetchedPartition], min_bytes: int) -> bool:
        """Whether to answer now: enough data, nothing to wait for, or an error the client should hear of.

        Partitions that were unknown from the first do not cut the wait short for the others: a client that keeps asking
        for a deleted topic would otherwise do so without a pause. A follower knows better when to ask again.
        """
        size = absent = 0
        for partition in fetched:
            if partition.diverging is not None or partition.read_replica is not None:
                return True
            if partition.error is ErrorCode.NONE:
                if partition.records is not None:
                    size += len(partition.records)
                elif self.reader.is_news(partition):
                    return True
            elif partition.error in _ABSENT and not self.reader.is_follower:
                absent += 1
            else:
                return True
        if self._absent_before < 0:
            self._absent_before = absent
        return size >= min_bytes or absent == len(fetched) or absent > self._absent_before

    def respond(self, fetched: list[FetchedPartition]) -> FetchResponse:
        try:
            selected = self.session.select(fetched)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=self.session.session_id)
        responses: list[FetchableTopicResponse] = []
        last: str | bytes | None = None
        for partition in selected:
            topic = partition.target.topic
            if topic != last:
                last = topic
                if isinstance(topic, str):
                    responses.append(FetchableTopicResponse(topic=topic))
                else:
                    responses.append(FetchableTopicResponse(topic_id=topic))
            responses[-1].partitions.append(self._partition_data(partition))
        return FetchResponse(
            session_id=self.session.session_id, responses=responses, node_endpoints=self._endpoints(responses)
        )

    def _endpoints(self, responses: list[FetchableTopicResponse]) -> list[NodeEndpoint]:
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
            for leader in leader_endpoints(self._context, leader_ids)
        ]

    def _read_one(self, target: FetchTarget, left: int, *, is_first: bool) -> FetchedPartition:
        topics = self._context.services.partitions
        topic = topics.topic(target.topic)
        partition = None if topic is None else topic.partitions.get(target.index)
        if partition is None:
            return FetchedPartition(target, topics.absent(target.topic, target.index).code)
        try:
            log = self.reader.log(partition, target)
            read_replica = self.reader.read_replica(partition, target)
            if read_replica is not None:
                return self._told(partition, log, target, read_replica=read_replica)
            if self._context.api_version < ZSTD_FROM and log.config.compression_type == "zstd":
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_FROM}")
            return self._read_log(partition, log, target, left, is_first=is_first)
        except KafkaError as error:
            return FetchedPartition(target, self._error_for_version(error.code))

    def _read_log(
        self, partition: Partition, log: Log, target: FetchTarget, left: int, *, is_first: bool
    ) -> FetchedPartition:
        diverging = diverging_epoch(log, target.last_fetched_epoch, target.fetch_offset)
        if diverging is not None:
            return self._told(partition, log, target, diverging=diverging)
        max_bytes, end = min(target.max_bytes, left), self.reader.end(partition, log)
        found = log.read(target.fetch_offset, max_bytes, upper_bound=end, min_one_batch=is_first)
        if not self._is_noted:
            self.reader.note(partition, log, target)
        records = FileRange(found.file, found.position, found.size) if found.size else None
        return self._told(partition, log, target, records=records)

    def _told(
        self,
        partition: Partition,
        log: Log,
        target: FetchTarget,
        *,
        records: FileRange | None = None,
        diverging: DivergingEpoch | None = None,
        read_replica: int | None = None,
    ) -> FetchedPartition:
        return FetchedPartition(
            target,
            ErrorCode.NONE,
            partition.high_watermark,
            partition.last_stable_offset(log),
            log.log_start_offset,
            records,
            diverging,
            read_replica,
        )

    def _partition_data(self, fetched: FetchedPartition) -> PartitionData:
        data = PartitionData(
            partition_index=fetched.target.index,
            error_code=fetched.error,
            high_watermark=fetched.high_watermark,
            last_stable_offset=fetched.last_stable_offset,
            log_start_offset=fetched.log_start_offset,
            aborted_transactions=[] if self._isolation_level == READ_COMMITTED else None,
            records=b"" if fetched.records is None else fetched.records,
        )
        if fetched.diverging is not None:
            data.diverging_epoch = EpochEndOffset(
                epoch=fetched.diverging.epoch, end_offset=fetched.diverging.end_offset
            )
        if fetched.read_replica is not None:
            data.preferred_read_replica = fetched.read_replica
        if fetched.error in LEADER_CHANGED and self._context.api_version >= _CURRENT_LEADER_FROM:
            leader = current_leader(self._context, fetched.target.topic, fetched.target.index)
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        return data

    def _error_for_version(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._context.api_version < _STORAGE_ERROR_FROM:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code


class ParkedFetch(Pending):
    """A fetch that waits for `min_bytes`, or for its deadline, whichever comes first."""

    __slots__ = ("_context", "_deadline", "_fetched", "_min_bytes", "_reading", "_watched")

    def __init__(
        self, context: RequestContext, reading: Reading, min_bytes: int, fetched: list[FetchedPartition]
    ) -> None:
        super().__init__(context.own_connection)
        self._context = context
        self._reading = reading
        self._min_bytes = min_bytes
        self._fetched = fetched
        self._watched: dict[Partition, int] = {}
        self._deadline: Deadline | None = None

    def wait(self, seconds: float) -> None:
        self.on_abandon = self._stop_waiting
        self._deadline = self._context.services.deadlines.add(trio.current_time() + seconds, self._expire)
        self._watched = self._reading.partitions()
        for partition in self._watched:
            self._reading.reader.wait(partition, self)

    def poke(self, partition: Partition) -> None:
        """One of the partitions has moved and has forgotten us."""
        if self.done:
            return
        self._reading.read_again(self._fetched, self._watched[partition])
        if self._reading.is_enough(self._fetched, self._min_bytes):
            # Where records were found early, and were too few, they may have been deleted since.
            self._answer(self._fetched if self._min_bytes <= 1 else self._reading.read())
        else:
            self._reading.reader.wait(partition, self)

    def _expire(self) -> None:
        self._answer(self._reading.read())

    def _answer(self, fetched: list[FetchedPartition]) -> None:
        self._stop_waiting()
        self.complete(self._context.encode(self._reading.respond(fetched)))

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for partition in self._watched:
            partition.waiting.pop(self, None)
            partition.tailing.pop(self, None)


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
