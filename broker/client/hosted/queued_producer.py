"""Passes records from an application to the producer on the background loop.

Waking the loop for every record would cost more than the record itself. So the application appends to a queue, and one
task of the loop passes the queued records to the producer, in order. The queue is bounded; a caller waits while it is
full.
"""

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from copy import copy
from math import inf
from typing import Any, Final, NamedTuple

import trio

from broker.client.consumer.group.identity import GroupMetadata
from broker.client.errors import ClosedError, TimedOut, TransactionError, TransactionStateError
from broker.client.metadata_cache import PartitionMetadata
from broker.client.producer.batch import DeliveryObserver, OnDelivery
from broker.client.producer.buffer_memory import BufferFull
from broker.client.producer.delivery import Delivery
from broker.client.producer.producer import Producer
from broker.client.producer.record_arguments import (
    NO_HEADERS,
    check_callback,
    check_topic,
    headers_of,
    partition_number,
    timestamp,
)
from broker.client.producer.transaction_state import PreparedTransaction
from broker.client.producer.unread_failures import UnreadFailures
from broker.client.serializers import BytesSerializer
from broker.client.types import Header, OffsetAndMetadata, RecordMetadata, TopicPartition

_BYTES: Final = BytesSerializer()
# A queue that the loop empties in about 50 ms; more would only delay the back-pressure of buffer.memory.
QUEUED_RECORDS_MAX: Final = 10_000
# Values are counted as they are given: those that are not bytes yet may become larger.
QUEUED_BYTES_MAX: Final = 8 << 20
# The records after which the loop looks at its other tasks; they take about 1 ms.
_RECORDS_PER_STEP: Final = 200
_NOT_TAKEN: Final = "the producer was closed before it took the record; it was not written"


class QueuedRecord:
    """A record in the queue. The producer's delivery, or the error that the producer raised, decides its outcome."""

    __slots__ = ("delivery", "error", "unread_failures")

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        self.error: Exception | None = None
        # Where the error counts until it is read.
        self.unread_failures: UnreadFailures | None = None

    @property
    def is_done(self) -> bool:
        """True if the record was written, or given up."""
        return self.error is not None or (self.delivery is not None and self.delivery.is_done)

    def outcome(self) -> RecordMetadata:
        """Where the record was written. Raises the reason why it was not, and RuntimeError where it is not decided."""
        if self.error is not None:
            if self.unread_failures is not None:
                self.unread_failures.read()
                self.unread_failures = None
            error = copy(self.error)  # each raise would add its traceback to it
            error.__cause__ = self.error.__cause__
            raise error
        if self.delivery is None:
            raise RuntimeError("the record has no outcome yet")
        return self.delivery.result()


class Entry(NamedTuple):
    """The parts of a record. `size` is that of its value, as far as it is known."""

    topic: str
    value: Any
    key: Any
    headers: Sequence[Header]
    partition: int | None
    timestamp_ms: int | None
    on_delivery: OnDelivery | None
    size: int


class QueuedProducer:
    """A producer that is fed through a queue. `put` and `is_full` are for any thread, the rest is for the loop."""

    def __init__(
        self, producer: Producer[Any, Any], key_serializer: object | None, value_serializer: object | None
    ) -> None:
        self.producer = producer
        self._has_no_key_serializer = key_serializer is None
        self._has_no_value_serializer = value_serializer is None
        self._queue: deque[tuple[QueuedRecord, Entry]] = deque()
        self._lock = threading.Lock()
        self._bytes_put = 0
        self._bytes_taken = 0
        self._is_awake = False
        self._is_closed = False
        self._failure: Exception | None = None
        self._arrived = trio.Event()
        self._advanced = trio.Event()

    # For any thread

    @property
    def is_full(self) -> bool:
        return len(self._queue) >= QUEUED_RECORDS_MAX or self._bytes_put - self._bytes_taken >= QUEUED_BYTES_MAX

    def entry(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[Header],
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Entry:
        """A record, checked as far as it needs no serializer. Raises TypeError and ValueError."""
        is_plain = key is None and headers is NO_HEADERS and partition is None and timestamp_ms is None
        if on_delivery is not None:
            check_callback(on_delivery)
        if not (is_plain and type(value) is bytes and type(topic) is str and topic.isascii()):
            check_topic(topic)
            if self._has_no_key_serializer and key is not None:
                key = _BYTES.serialize(topic, key)
            if self._has_no_value_serializer and value is not None:
                value = _BYTES.serialize(topic, value)
            if headers is not NO_HEADERS:
                headers = headers_of(topic, headers)
            if partition is not None:
                partition = partition_number(topic, partition)
            if timestamp_ms is not None:
                timestamp_ms = timestamp(topic, timestamp_ms)
        size = len(value) if isinstance(value, bytes | str) else 0
        return Entry(topic, value, key, headers, partition, timestamp_ms, on_delivery, size)

    def put(self, record: QueuedRecord, entry: Entry, wake_loop: Callable[[], object]) -> None:
        """Appends a record to the queue. `wake_loop`, which has the loop call `wake`, is called if that is needed.

        Raises ClosedError. The producer may close after the caller has seen that it is open: a record that was queued
        then would have no outcome.
        """
        with self._lock:
            if self._is_closed:
                raise ClosedError(_NOT_TAKEN) from self._failure
            self._bytes_put += entry.size
            self._queue.append((record, entry))
            if not self._is_awake:
                # KeyboardInterrupt may come before the loop is woken. Then the next caller wakes it.
                wake_loop()
                self._is_awake = True

    # For the loop

    @asynccontextmanager
    async def open(self) -> AsyncIterator["QueuedProducer"]:
        """Opens the producer for the block. The end of the block waits until the queue is empty."""
        try:
            async with self.producer, trio.open_nursery() as nursery:
                nursery.start_soon(self._hand_over)
                try:
                    yield self
                finally:
                    await self.wait_until_empty()
                    nursery.cancel_scope.cancel()
        except Exception as failure:
            self._failure = failure
            raise
        finally:
            with self._lock:
                self._is_closed = True
            try:
                self._refuse_all(ClosedError(_NOT_TAKEN))
            finally:
                self._announce()

    def wake(self) -> None:
        """Have the records in the queue handed over. Tasks that wait for the queue call it too.

        The caller that put the last record may have been interrupted before it could.
        """
        self._arrived.set()

    async def wait_until_empty(self) -> None:
        """Waits until the producer has every record that was put before."""
        while self._queue:
            self.wake()
            await self._advanced.wait()

    async def wait_for_room(self) -> None:
        """Waits until the queue is half empty."""
        while len(self._queue) > QUEUED_RECORDS_MAX // 2 or self._bytes_put - self._bytes_taken > QUEUED_BYTES_MAX // 2:
            self.wake()
            await self._advanced.wait()

    async def flush(self) -> None:
        await self.wait_until_empty()
        await self.producer.flush()

    async def produce_arrow(self, topic: str | None, table: Any) -> dict[TopicPartition, list[range]]:
        await self.wait_until_empty()
        return await self.producer.produce_arrow(topic, table)

    async def init_transactions(self, keep_prepared: bool) -> PreparedTransaction | None:
        return await self.producer.init_transactions(keep_prepared=keep_prepared)

    async def prepare_transaction(self, allow_timeout: bool) -> PreparedTransaction:
        await self.wait_until_empty()
        return await self.producer.prepare_transaction(allow_timeout=allow_timeout)

    async def complete_transaction(self, decided: PreparedTransaction) -> None:
        await self.producer.complete_transaction(decided)

    async def begin_transaction(self) -> None:
        """Begins a transaction. Records that were put before do not belong to it."""
        await self.wait_until_empty()
        await self.producer.begin_transaction()

    async def commit_transaction(self) -> None:
        await self.wait_until_empty()
        await self.producer.commit_transaction()

    async def abort_transaction(self) -> None:
        await self.wait_until_empty()
        await self.producer.abort_transaction()

    async def enter_transaction(self) -> AbstractAsyncContextManager[None]:
        """Begins a transaction; `leave_transaction` ends the returned block."""
        await self.wait_until_empty()
        transaction = self.producer.transaction()
        await transaction.__aenter__()
        return transaction

    async def leave_transaction(
        self, transaction: AbstractAsyncContextManager[None], error: BaseException | None
    ) -> None:
        """Commits, or aborts because of the error of the block."""
        await self.wait_until_empty()
        await transaction.__aexit__(None if error is None else type(error), error, None)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        await self.producer.send_offsets_to_transaction(offsets, group)

    async def partitions_for(self, topic: str) -> Sequence[PartitionMetadata]:
        return await self.producer.partitions_for(topic)

    async def close(self, timeout_s: float) -> None:
        deadline = trio.current_time() + timeout_s
        with trio.move_on_at(deadline):
            await self.wait_until_empty()
        await self.producer.close(max(deadline - trio.current_time(), 0))

    async def outcome(self, record: QueuedRecord, timeout_s: float | None) -> RecordMetadata:
        """Waits for the outcome of a record. Raises its error; TimedOut, after which it may still be written."""
        with trio.move_on_after(inf if timeout_s is None else timeout_s):
            while record.delivery is None and record.error is None:
                await self._advanced.wait()
            return record.outcome() if record.delivery is None else await record.delivery
        raise TimedOut(f"the record has no outcome after {timeout_s} s; it may still be written")

    async def _hand_over(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            while True:
                while self._queue:
                    for _ in range(_RECORDS_PER_STEP):
                        if self._queue:
                            await self._hand_over_first()
                    self._announce()
                    await trio.lowlevel.checkpoint()
                with self._lock:
                    self._is_awake = bool(self._queue)
                if not self._is_awake:
                    break

    async def _hand_over_first(self) -> None:
        record, entry = self._queue[0]
        try:
            record.delivery = await self._send(entry)
        except TimedOut as error:
            # There was no room for max.block.ms. The records queued after it have waited as long, and would now wait
            # once more.
            self._refuse_all(error)
            return
        except Exception as error:  # noqa: BLE001 - raised by the record's result()
            self._refuse_first(error)
            return
        self._take_first()

    def _refuse_all(self, error: Exception) -> None:
        """Refuse every record in the queue. Raises what callbacks raise, when each record has its outcome."""
        with ExitStack() as stack:
            for _ in range(len(self._queue)):
                stack.callback(self._refuse_first, error)

    def _refuse_first(self, error: Exception) -> None:
        record, entry = self._queue[0]
        self._take_first()  # before the callback, which may raise
        self._refuse(record, entry, error)

    def _take_first(self) -> None:
        self._bytes_taken += self._queue.popleft()[1].size

    async def _send(self, entry: Entry) -> Delivery:
        """Hands one record to the producer, as soon as that has room for it."""
        room = self.producer.config.batch_size
        while True:
            try:
                return self.producer.send_soon(
                    entry.topic,
                    entry.value,
                    key=entry.key,
                    headers=entry.headers,
                    partition=entry.partition,
                    timestamp_ms=entry.timestamp_ms,
                    on_delivery=entry.on_delivery,
                )
            except BufferFull:
                self._announce()
                # How large the record is when it is serialized is not known here; the whole buffer is enough.
                await self.producer.wait_for_room(room)
                room = min(max(2 * room, 1), self.producer.config.buffer_memory)

    def _announce(self) -> None:
        advanced, self._advanced = self._advanced, trio.Event()
        advanced.set()

    def _refuse(self, record: QueuedRecord, entry: Entry, error: Exception) -> None:
        # A commit tells of records that were refused because of their transaction.
        is_of_transaction = isinstance(error, TransactionError) and not isinstance(error, TransactionStateError)
        is_read = entry.on_delivery is not None and not isinstance(entry.on_delivery, DeliveryObserver)
        if not is_read and not is_of_transaction:
            record.unread_failures = self.producer.unread_failures
            self.producer.unread_failures.add(1, error)
        record.error = error
        if entry.on_delivery is not None:
            entry.on_delivery(None, error)
