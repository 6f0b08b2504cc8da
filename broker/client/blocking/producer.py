"""The blocking variant of `Producer`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Generic, Unpack

from broker.client.arguments.calls import checks_arguments
from broker.client.blocking.client import BlockingClient, BlockingHost
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.errors import ClosedError
from broker.client.hosted.queued_producer import QueuedProducer, QueuedRecord
from broker.client.metadata_cache import PartitionMetadata
from broker.client.producer.batch import OnDelivery
from broker.client.producer.config import ProducerSettings
from broker.client.producer.partitioners import Partitioner
from broker.client.producer.producer import Producer
from broker.client.producer.transaction_state import PreparedTransaction
from broker.client.producer.unread_failures import UndeliveredRecords
from broker.client.serializers import Serializer
from broker.client.types import Header, K, OffsetAndMetadata, RecordMetadata, TopicPartition, V


class SyncDelivery(QueuedRecord):
    """The future of a record that was handed to a SyncProducer."""

    __slots__ = ("_hosted",)

    def __init__(self, hosted: BlockingHost[QueuedProducer]) -> None:
        super().__init__()
        self._hosted = hosted

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Waits for where the record was written. Raises the reason why it was not.

        Raises TimedOut after `timeout_s`; the record may still be written then.
        """
        if self.is_done:
            return self.outcome()
        return self._hosted.run(QueuedProducer.outcome, self, timeout_s)


@checks_arguments(but_not=("send", "send_soon"))
class SyncProducer(BlockingClient[QueuedProducer], Generic[K, V]):
    """`Producer` for scripts, notebooks and threads: the same methods, which block. It may be used by several threads.

        with SyncProducer("localhost:9092", compression_type="zstd") as producer:
            delivery = producer.send_soon("orders", b"value", key=b"key")
            producer.flush()
            print(delivery.result().offset)

    Leaving the block waits until every record has its outcome. Records of one thread keep their order.
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
        """Takes what `Producer` takes. Serializers and the partitioner are called by the loop. Raises ConfigError."""
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
    ) -> SyncDelivery:
        """Hands a record over, and returns its delivery; waits only where many records were handed over already.

        Back-pressure comes from `buffer.memory`: a record for which there is no room within `max.block.ms` fails with
        TimedOut. The delivery's `result` raises RecordTooLarge, and the errors of the serializers and the partitioner.
        `on_delivery(metadata, error)` is called by the loop, so it must not block; it may hand over more. Raises
        ClosedError.
        """
        hosted = self._hosted
        if hosted.is_closed:
            raise hosted.closed_error("the producer is closed; open another one")
        entry = self._queued_producer.entry(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self._queued_producer.is_full:
            hosted.run(QueuedProducer.wait_for_room)
        delivery = SyncDelivery(hosted)
        self._queued_producer.put(delivery, entry, partial(hosted.call_soon, QueuedProducer.wake))
        return delivery

    def send(
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

        If the wait is interrupted, the record stays in its batch and is written.
        """
        delivery = self.send_soon(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return delivery.result()

    def produce_arrow(self, topic: str | None, table: Any) -> dict[TopicPartition, list[range]]:
        """Writes the rows of a pyarrow Table; see `Producer.produce_arrow`."""
        return self._hosted.run(QueuedProducer.produce_arrow, topic, table)

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Fences other producers of the transactional id; see `Producer.init_transactions`."""
        return self._hosted.run(QueuedProducer.init_transactions, keep_prepared)

    def prepare_transaction(self, *, allow_timeout: bool = False) -> PreparedTransaction:
        """Writes all records that were handed over; see `Producer.prepare_transaction`."""
        return self._hosted.run(QueuedProducer.prepare_transaction, allow_timeout)

    def complete_transaction(self, decided: PreparedTransaction) -> None:
        """Commits or aborts the prepared transaction; see `Producer.complete_transaction`."""
        self._hosted.run(QueuedProducer.complete_transaction, decided)

    def begin_transaction(self) -> None:
        """Begins a transaction; see `Producer.begin_transaction`."""
        self._hosted.run(QueuedProducer.begin_transaction)

    def commit_transaction(self) -> None:
        """Commits the transaction with all records that were handed over; see `Producer.commit_transaction`."""
        self._hosted.run(QueuedProducer.commit_transaction)

    def abort_transaction(self) -> None:
        """Aborts the transaction; see `Producer.abort_transaction`."""
        self._hosted.run(QueuedProducer.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A block that is a transaction: `with producer.transaction():`; see `Producer.transaction`."""
        transaction = self._hosted.run(QueuedProducer.enter_transaction)
        try:
            yield
        except BaseException as error:
            with suppress(ClosedError):
                self._hosted.run(QueuedProducer.leave_transaction, transaction, error)
            raise
        self._hosted.run(QueuedProducer.leave_transaction, transaction, None)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commits offsets as part of the transaction; see `Producer.send_offsets_to_transaction`."""
        self._hosted.run(QueuedProducer.send_offsets_to_transaction, offsets, group)

    def flush(self) -> None:
        """Waits until every record that was handed over before has its outcome."""
        self._hosted.run(QueuedProducer.flush)

    def partitions_for(self, topic: str) -> Sequence[PartitionMetadata]:
        """The partitions of a topic; see `Producer.partitions_for`."""
        return self._hosted.run(QueuedProducer.partitions_for, topic)

    def close(self, timeout_s: float = inf) -> None:
        """Waits until every record has its outcome, gives up the rest after the timeout, and closes the producer."""
        try:
            if not self._hosted.is_closed:
                self._hosted.run(QueuedProducer.close, timeout_s)
        finally:
            super().close()
        if (undelivered := self._producer.unread_failures.take()) is not None:
            raise undelivered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        undelivered = None
        try:
            self.close()
        except UndeliveredRecords as found:
            undelivered = found.beside(error)
        if undelivered is not None:
            raise undelivered
