"""The variant of `Producer` for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Generic, Unpack

from broker.client.aio.client import AsyncioClient, AsyncioHost
from broker.client.arguments.calls import checks_arguments
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.errors import ClosedError, copy_to_raise
from broker.client.hosted.queued_producer import Entry, QueuedProducer, QueuedRecord
from broker.client.metadata_cache import PartitionMetadata
from broker.client.producer.batch import DeliveryObserver, OnDelivery
from broker.client.producer.buffer_memory import BufferFull
from broker.client.producer.config import ProducerSettings
from broker.client.producer.partitioners import Partitioner
from broker.client.producer.producer import Producer
from broker.client.producer.record_arguments import check_callback
from broker.client.producer.transaction_state import PreparedTransaction
from broker.client.producer.unread_failures import UndeliveredRecords
from broker.client.serializers import Serializer
from broker.client.types import Header, K, OffsetAndMetadata, RecordMetadata, TopicPartition, V


class AsyncioDelivery(QueuedRecord):
    """The outcome of a record that was handed to an AsyncioProducer: await it for the RecordMetadata.

    The record is written even if its delivery is dropped.
    """

    __slots__ = ("_hosted",)

    def __init__(self, hosted: AsyncioHost[QueuedProducer]) -> None:
        super().__init__()
        self._hosted = hosted

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._wait().__await__()

    def result(self) -> RecordMetadata:
        """Where the record was written. Raises the reason why it was not, and RuntimeError where it is not decided."""
        return self.outcome()

    async def _wait(self) -> RecordMetadata:
        return self.outcome() if self.is_done else await self._hosted.run(QueuedProducer.outcome, self, None)


@checks_arguments(but_not=("send", "send_soon"))
class AsyncioProducer(AsyncioClient[QueuedProducer], Generic[K, V]):
    """`Producer` for asyncio: the same methods.

        async with AsyncioProducer("localhost:9092", compression_type="zstd") as producer:
            metadata = await producer.send("orders", b"value", key=b"key")
            print(metadata.offset)

    Leaving the block waits until every record has its outcome, at most `delivery.timeout.ms`; if it is left because of
    a cancellation, records that were not sent are given up. The tasks of one asyncio loop may use a producer.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        partitioner: Partitioner | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Takes what `Producer` takes. Raises ConfigError.

        Serializers and the partitioner are called on the background thread.
        """
        producer: Producer[K, V] = Producer(
            bootstrap_servers,
            config=config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            **settings,
        )
        self._producer = producer
        self._queued_producer = QueuedProducer(producer, key_serializer, value_serializer)
        super().__init__(self._queued_producer.open())

    def send_soon(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncioDelivery:
        """Hands a record over and returns at once; the returned delivery can be awaited for where it was written.

        Raises BufferFull where many records wait to be handed over: `await wait_for_room()` and try again, or use
        `send`. A record for which `buffer.memory` has no room within `max.block.ms` fails with TimedOut. The delivery
        raises RecordTooLarge, and the errors of the serializers and the partitioner. `on_delivery(metadata, error)` is
        called by the asyncio loop; what it raises goes to the loop's exception handler. Raises ClosedError.
        """
        hosted = self._open()
        if on_delivery is not None:
            check_callback(on_delivery)
            if not isinstance(on_delivery, DeliveryObserver):
                on_delivery = partial(hosted.mailbox.post, on_delivery)
        entry = self._queued_producer.entry(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self._queued_producer.is_full:
            raise BufferFull("many records wait to be handed over: await wait_for_room() before the next record")
        delivery = AsyncioDelivery(hosted)
        self._put(hosted, delivery, entry)
        return delivery

    async def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Writes a record and returns where it was written. Raises the reason why it was not.

        If it is cancelled while many records wait to be handed over, the record is not written; if later, it is.
        """
        hosted = self._open()
        hosted.check_loop()
        outcome: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        decided = partial(hosted.mailbox.post, _resolve, outcome)
        entry = self._queued_producer.entry(topic, value, key, headers, partition, timestamp_ms, decided)
        if self._queued_producer.is_full:
            await self.wait_for_room()
        self._put(hosted, QueuedRecord(), entry)
        return await outcome

    async def wait_for_room(self) -> None:
        """Waits until `send_soon` takes a record. Returns at once if there is room."""
        while self._queued_producer.is_full:
            await self._hosted.run(QueuedProducer.wait_for_room)

    async def produce_arrow(self, topic: str | None, table: Any) -> dict[TopicPartition, list[range]]:
        """Writes the rows of a pyarrow Table; see `Producer.produce_arrow`."""
        return await self._hosted.run(QueuedProducer.produce_arrow, topic, table)

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Fences other producers of the transactional id; see `Producer.init_transactions`."""
        return await self._hosted.run(QueuedProducer.init_transactions, keep_prepared)

    async def prepare_transaction(self, *, allow_timeout: bool = False) -> PreparedTransaction:
        """Writes all records that were handed over; see `Producer.prepare_transaction`."""
        return await self._hosted.run(QueuedProducer.prepare_transaction, allow_timeout)

    async def complete_transaction(self, decided: PreparedTransaction) -> None:
        """Commits or aborts the prepared transaction; see `Producer.complete_transaction`."""
        await self._hosted.run(QueuedProducer.complete_transaction, decided)

    async def begin_transaction(self) -> None:
        """Begins a transaction; see `Producer.begin_transaction`."""
        await self._hosted.run(QueuedProducer.begin_transaction)

    async def commit_transaction(self) -> None:
        """Commits the transaction with all records that were handed over; see `Producer.commit_transaction`."""
        await self._hosted.run(QueuedProducer.commit_transaction)

    async def abort_transaction(self) -> None:
        """Aborts the transaction; see `Producer.abort_transaction`."""
        await self._hosted.run(QueuedProducer.abort_transaction)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A block that is a transaction: `async with producer.transaction():`; see `Producer.transaction`."""
        transaction = await self._hosted.run(QueuedProducer.enter_transaction)
        try:
            yield
        except BaseException as error:
            with suppress(ClosedError):
                await self._hosted.run(QueuedProducer.leave_transaction, transaction, error)
            raise
        await self._hosted.run(QueuedProducer.leave_transaction, transaction, None)

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commits offsets as part of the transaction; see `Producer.send_offsets_to_transaction`."""
        await self._hosted.run(QueuedProducer.send_offsets_to_transaction, offsets, group)

    async def flush(self) -> None:
        """Waits until every record that was handed over before has its outcome."""
        await self._hosted.run(QueuedProducer.flush)

    async def partitions_for(self, topic: str) -> Sequence[PartitionMetadata]:
        """The partitions of a topic; see `Producer.partitions_for`."""
        return await self._hosted.run(QueuedProducer.partitions_for, topic)

    async def close(self, timeout_s: float = inf) -> None:
        """Waits until every record has its outcome, gives up the rest after the timeout, and closes the producer."""
        try:
            if not self._hosted.is_closed:
                await self._hosted.run(QueuedProducer.close, timeout_s)
        finally:
            await super().close()
        if (undelivered := self._producer.unread_failures.take()) is not None:
            raise undelivered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        undelivered = None
        try:
            await self.close(0 if isinstance(error, asyncio.CancelledError) else inf)
        except UndeliveredRecords as found:
            undelivered = found.beside(error)
        if undelivered is not None:
            raise undelivered

    def _open(self) -> AsyncioHost[QueuedProducer]:
        hosted = self._hosted
        if hosted.is_closed:
            raise hosted.closed_error("the producer is closed; open another one")
        return hosted

    def _put(self, hosted: AsyncioHost[QueuedProducer], record: QueuedRecord, entry: Entry) -> None:
        self._queued_producer.put(record, entry, partial(hosted.call_soon, QueuedProducer.wake))


def _resolve(
    outcome: "asyncio.Future[RecordMetadata]", metadata: RecordMetadata | None, error: Exception | None
) -> None:
    if outcome.done():
        return  # the task was cancelled
    if metadata is not None:
        outcome.set_result(metadata)
    else:
        assert error is not None, "a record without a place has an error"
        outcome.set_exception(copy_to_raise(error))
