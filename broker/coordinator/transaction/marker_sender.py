"""Brings the end markers of prepared transactions to all their partitions, for as long as it takes.

A marker goes to the leader of its partition: this broker appends it itself, others are asked to (WriteTxnMarkers). For
each of them one request is under way at a time, with all markers that have come together meanwhile. A marker that fails
is sent again after a moment, to the partition's leader at that time. Markers for deleted topics are dropped. When all
partitions have their markers, the transaction is complete.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import trio

from broker.client import ConnectionLost
from broker.coordinator.broker_connections import BrokerConnections
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.marker_writer import MarkerWriter
from broker.coordinator.transaction.transaction import TopicPartition
from broker.net.deadlines import Deadlines
from broker.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.wire.errors import ErrorCode
from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.image import MetadataImage

_VERSION: Final = 2
# Kafka's pause before it sends markers again.
RETRY_BACKOFF_MS: Final = 100
# Markers in one request: one for each partition of each transaction. To read the response to so many, and to build the
# next request, takes some 2 ms.
_MARKERS_MAX: Final = 200
_NO_LEADER: Final = -1
# Actions, or markers of one transaction, in one turn: some 5 ms. 20,000 transactions can time out at once, and a
# coordinator that is loaded may find as many prepared ones.
_TURN_MAX: Final = 32
# The coordinator was replaced, or a later epoch of the producer has written: another coordinator ends the transaction.
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


@lazy_attrs.define(eq=False)
class UnfinishedTransaction:
    """A prepared transaction: `left` are the partitions without a marker.

    `is_current` tells whether this broker still has to end it; `completed` is called when it has.
    """

    transactional_id: str
    marker: TransactionMarker
    left: dict[TopicPartition, None]
    is_current: Callable[[], bool]
    completed: Callable[[], None]


class MarkerSender:
    """See the module's docstring. `run` must run; all work is done there, in short turns of its own.

    `commit` writes what a turn has staged.
    """

    def __init__(
        self,
        local_id: int,
        image: Callable[[], MetadataImage],
        writer: MarkerWriter,
        connections: BrokerConnections,
        deadlines: Deadlines,
        commit: Callable[[], None],
        trace: Tracer,
    ) -> None:
        self._local_id = local_id
        self._image = image
        self._writer = writer
        self._connections = connections
        self._deadlines = deadlines
        self._commit = commit
        self._trace = trace
        self._actions: deque[Callable[[], None]] = deque()
        self._wanted = trio.Event()
        self._queues: dict[int, deque[tuple[UnfinishedTransaction, list[TopicPartition]]]] = {}
        self._failed: list[tuple[UnfinishedTransaction, list[TopicPartition]]] = []
        self._nursery: trio.Nursery | None = None

    def send(self, transaction: UnfinishedTransaction) -> None:
        """Begin to send the markers of a transaction whose outcome is committed. Returns at once."""
        self.run_soon(partial(self._begin, transaction))

    def run_soon(self, action: Callable[[], None]) -> None:
        """Run `action` in a turn of this sender, and then commit what it has staged. `action` must not raise."""
        self._actions.append(action)
        self._wanted.set()

    def run_later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """As `run_soon`, after `delay_ms`."""
        self._deadlines.add(trio.current_time() + delay_ms / 1000, lambda: self.run_soon(action))

    async def run(self) -> None:
        """Send, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                while self._actions:
                    self._take_turn()
                    await trio.lowlevel.checkpoint()

    def _take_turn(self) -> None:
        actions = self._actions
        for _ in range(min(len(actions), _TURN_MAX)):
            actions.popleft()()
        self._commit()

    def _begin(self, transaction: UnfinishedTransaction) -> None:
        if transaction.left:
            self._route(transaction, list(transaction.left))
        else:
            transaction.completed()

    def _route(self, transaction: UnfinishedTransaction, places: list[TopicPartition]) -> None:
        """Hand each of the partitions' markers over to the partition's leader."""
        if not transaction.is_current():
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        topics = self._image().topics.by_name
        for topic, index in places:
            image = topics.get(topic)
            partition = None if image is None else image.partitions.get(index)
            if partition is None:
                self._has_ended(transaction, (topic, index))
            else:
                by_leader.setdefault(partition.leader, []).append((topic, index))
        for leader, theirs in by_leader.items():
            if leader == self._local_id:
                self._write_all(transaction, theirs)
            elif leader == _NO_LEADER:
                self._again(transaction, theirs)
            else:
                self._queue(leader, transaction, theirs)

    def _write_all(self, transaction: UnfinishedTransaction, places: list[TopicPartition]) -> None:
        for place in places[:_TURN_MAX]:
            self._write(transaction, place)
        if len(places) > _TURN_MAX:
            self.run_soon(partial(self._route, transaction, places[_TURN_MAX:]))

    def _write(self, transaction: UnfinishedTransaction, place: TopicPartition) -> None:
        written = self._writer.write(transaction.marker, place)
        if written.done:
            self._settled(transaction, place, written.outcome)
        else:
            # Not within the commit of the partition: what follows may append to others.
            written.then(lambda code: self.run_soon(partial(self._settled, transaction, place, code)))

    def _settled(self, transaction: UnfinishedTransaction, place: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self._has_ended(transaction, place)
        elif code in _FENCED:
            self._trace(
                "transaction_marker_fenced",
                transactional_id=transaction.transactional_id,
                topic=place[0],
                partition=place[1],
                error=code.name,
            )
        else:
            self._again(transaction, [place])

    def _has_ended(self, transaction: UnfinishedTransaction, place: TopicPartition) -> None:
        if transaction.left and place in transaction.left:
            del transaction.left[place]
            if not transaction.left:
                transaction.completed()

    def _again(self, transaction: UnfinishedTransaction, places: list[TopicPartition]) -> None:
        if not self._failed:
            self.run_later(RETRY_BACKOFF_MS, self._retry)
        self._failed.append((transaction, places))

    def _retry(self) -> None:
        failed, self._failed = self._failed, []
        for transaction, places in failed:
            self.run_soon(partial(self._route, transaction, places))

    # Other brokers

    def _queue(self, leader: int, transaction: UnfinishedTransaction, places: list[TopicPartition]) -> None:
        assert self._nursery is not None, "it runs"
        queue = self._queues.get(leader)
        if queue is None:
            self._queues[leader] = deque([(transaction, places)])
            self._nursery.start_soon(self._send_to, leader)
        else:
            queue.append((transaction, places))

    async def _send_to(self, leader: int) -> None:
        """Send what is queued for a broker, until nothing is."""
        while queue := self._queues[leader]:
            sent = _take(queue, _MARKERS_MAX)
            request = WriteTxnMarkersRequest(markers=[_wire_marker(each.marker, places) for each, places in sent])
            try:
                response = await self._connections.call(leader, request, _VERSION)
            except ConnectionLost:
                for each, places in sent:
                    self._again(each, places)
            else:
                codes = _codes_of(response)
                for each, places in sent:
                    self.run_soon(partial(self._answered, each, places, codes))
        del self._queues[leader]

    def _answered(
        self,
        transaction: UnfinishedTransaction,
        places: list[TopicPartition],
        codes: Mapping[tuple[int, TopicPartition], int],
    ) -> None:
        for place in places:
            code = codes.get((transaction.marker.producer_id, place), ErrorCode.UNKNOWN_SERVER_ERROR)
            self._settled(transaction, place, ErrorCode.of(code))


def _take(
    queue: deque[tuple[UnfinishedTransaction, list[TopicPartition]]], markers_max: int
) -> list[tuple[UnfinishedTransaction, list[TopicPartition]]]:
    """Remove the first markers from a queue, at most `markers_max`."""
    taken = []
    while queue and markers_max:
        transaction, places = queue.popleft()
        if len(places) > markers_max:
            queue.appendleft((transaction, places[markers_max:]))
            places = places[:markers_max]
        taken.append((transaction, places))
        markers_max -= len(places)
    return taken


def _codes_of(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    """The error codes of markers, by producer id and partition."""
    return {
        (marker.producer_id, (topic.name, partition.partition_index)): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def _wire_marker(marker: TransactionMarker, places: list[TopicPartition]) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
