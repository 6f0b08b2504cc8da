"""The producer: what an application calls to write records."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, Self, Unpack

import trio

from broker.client.arguments.calls import checks_arguments
from broker.client.cluster import Cluster
from broker.client.config import read_config
from broker.client.environment import Environment, environment_of
from broker.client.errors import ClosedError, TimedOut, check, copy_to_raise
from broker.client.every_broker import look_for_topic
from broker.client.metadata_cache import PartitionMetadata
from broker.client.open_cluster import open_cluster
from broker.client.producer.accumulator import Accumulator, AccumulatorLimits
from broker.client.producer.batch import RECORD_OVERHEAD_BYTES, Batch, OnDelivery
from broker.client.producer.buffer_memory import BufferFull, BufferMemory, RecordTooLarge
from broker.client.producer.compression_ratio import CompressionRatios
from broker.client.producer.config import ProducerConfig, ProducerSettings
from broker.client.producer.delivery import Delivery, wait_until_done
from broker.client.producer.partitioners import KeyHashes, Partitioner
from broker.client.producer.record_arguments import (
    NO_HEADERS,
    TIMESTAMP_MAX,
    RecordSerializers,
    check_callback,
    timestamp,
)
from broker.client.producer.routing import PartitionChoice, TopicRouting
from broker.client.producer.sender import Sender
from broker.client.producer.sequences import ProducerIdentity
from broker.client.producer.transaction_calls import OpenTransactions, TransactionCalls
from broker.client.producer.transaction_requests import transaction_requests
from broker.client.producer.unread_failures import UndeliveredRecords, UnreadFailures
from broker.client.serializers import Serializer
from broker.client.types import Header, K, RecordMetadata, TopicPartition, V
from broker.wire.errors import ErrorCode

_UNACKNOWLEDGED: Final = "the producer was closed before the record was acknowledged; it may have been written"
_BATCH_OVERHEAD_BYTES: Final = 61  # the batch's header


@checks_arguments(but_not=("send", "send_soon"))
class Producer(TransactionCalls, Generic[K, V]):
    """Writes records. Use it as `async with Producer("localhost:9092") as producer:`.

    Keyword arguments are Kafka's config keys with underscores (`linger_ms=20`), `config` is a dict of the same with
    dots; see `ProducerConfig`. Leaving the block waits until every record has its outcome, at most
    `delivery.timeout.ms`; if it is left because of a cancellation, records that were not sent are given up.

    A Producer[K, V] takes keys and values of the types that its serializers take, bytes without them.

    A record is written once and in order even if brokers fail in between, unless `enable_idempotence` is off. With a
    `transactional_id`, records are sent within transactions: `async with producer.transaction():`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        partitioner: Partitioner | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Raises ConfigError. `partitioner` chooses the partitions in place of Kafka's default partitioner."""
        self.config = read_config(ProducerConfig, bootstrap_servers, config, settings)
        self._serializers = RecordSerializers(key_serializer, value_serializer)
        self._takes_bytes = self._serializers.takes_bytes
        self._partitioner = partitioner
        self._environment = environment_of(environment)
        self._now_ms = self._environment.now_ms
        self._memory = BufferMemory(self.config.buffer_memory)
        self.unread_failures = UnreadFailures()
        self._record_size_max = min(self.config.max_request_size - _BATCH_OVERHEAD_BYTES, self.config.buffer_memory)
        self._routings: dict[str, TopicRouting] = {}
        self._hashes = KeyHashes()
        self._stack = AsyncExitStack()
        self._cluster: Cluster | None = None
        self._is_closed = False
        # Why no records are taken, and why the producer cannot be used at all.
        self._refusal: Exception | None = ClosedError("use the producer within `async with`")
        self._end: Exception | None = self._refusal
        self._transactions: OpenTransactions | None = None

    async def __aenter__(self) -> Self:
        self._cluster = await self._stack.enter_async_context(open_cluster(self.config, self._environment))
        self._start(self._cluster)
        return self

    def _start(self, cluster: Cluster) -> None:
        config = self.config
        identity = ProducerIdentity() if config.is_idempotent else None
        requests = transaction_requests(cluster, config, identity, self._take_transaction_state)
        self._accumulator = Accumulator(
            AccumulatorLimits.of(config),
            identity,
            CompressionRatios(is_compressing=config.compression_type != "none"),
            self._memory,
            on_batch=lambda: self._sender.wake(),
            transaction=None if requests is None else requests.transaction,
            failures=self.unread_failures,
        )
        self._sender = Sender(cluster, config, self._accumulator, identity, self._routings, self._refuse, requests)
        self._choice = PartitionChoice(
            self._environment.rng,
            batch_size=max(config.batch_size, 1),
            custom=self._partitioner,
            ignores_keys=config.partitioner_ignore_keys,
            is_adaptive=config.partitioner_adaptive_partitioning_enable,
            is_slow=self._sender.is_slow,
        )
        cluster.call_on_failure(self._refuse)
        cluster.nursery.start_soon(self._sender.run)
        self._refusal = self._end = None
        if requests is not None:
            self._transactions = OpenTransactions(cluster, config, requests, self._sender, self.flush)
            self._take_transaction_state()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        undelivered = None
        try:
            await self.close()
        except UndeliveredRecords as found:
            undelivered = found.beside(error)
        finally:
            await self._stack.__aexit__(kind, error, traceback)
        if undelivered is not None:
            raise undelivered

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
    ) -> Delivery:
        """Hands a record over and returns at once; the returned delivery can be awaited for where it was written.

        `on_delivery(metadata, error)` is called in the producer's task, so it must not block; what it raises ends the
        `async with` block. Raises BufferFull where `buffer.memory` is used up: `await wait_for_room()` and try again,
        or use `send`. Raises RecordTooLarge, ClosedError, what the serializers and the partitioner raise, and the error
        that ended the producer, such as a refused producer id.
        """
        if on_delivery is not None:
            check_callback(on_delivery)
        if key is None and headers is NO_HEADERS and self._takes_bytes and type(value) is bytes:
            size = RECORD_OVERHEAD_BYTES + len(value)
        else:
            key, value, headers, size = self._serializers.serialized(topic, key, value, headers)
        memory = self._memory
        if memory.used + size > memory.limit or memory.is_awaited:
            self._check_size(topic, size)
            raise BufferFull(
                f"records of {memory.used} bytes wait to be written (buffer.memory is {memory.limit}): await"
                " wait_for_room() before the next record"
            )
        delivery = self._append(topic, key, value, headers, partition, timestamp_ms, size)
        memory.used += size
        if on_delivery is not None:
            delivery.add_callback(on_delivery)
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
        """Writes a record and returns where it was written.

        Waits up to `max.block.ms` for room in the buffer. If it is cancelled while it waits for room, the record is not
        written; if later, the record stays in its batch and is written. Raises TimedOut where that took longer than
        `max.block.ms` or `delivery.timeout.ms`, KafkaError where the broker refused the record, and what `send_soon`
        raises, except for BufferFull.
        """
        key, value, headers, size = self._serializers.serialized(topic, key, value, headers)
        self._check_size(topic, size)
        if self._memory.has_room(size):
            self._memory.used += size
        else:
            await self._reserve(size)
        try:
            delivery = self._append(topic, key, value, headers, partition, timestamp_ms, size)
        except BaseException:
            self._memory.release(size)
            raise
        return await delivery

    async def produce_arrow(self, topic: str | None, table: Any) -> dict[TopicPartition, list[range]]:
        """Writes the rows of a pyarrow Table or RecordBatch, and returns at which offsets of which partitions they are.

        For many records this is several times as fast as `send`. All columns are optional: `key` and `value` (bytes or
        text; serializers do not apply), `timestamp` (a timestamp, or milliseconds; now where it is null), `headers` (a
        list of structs with `key` and `value`), `partition` (where it is null, the producer chooses), and where `topic`
        is None also `topic`. Rows of a partition are written in their order, in batches of 1 MiB, or of
        `max.request.size` if that is less, after the records that were sent before.

        Offsets that a leader does not tell, as with acks=0, are left out. Waits up to `max.block.ms` at a time for room
        in the buffer. Raises what `send` raises, TypeError and ValueError for columns that are no records,
        BadPartition, and ImportError unless numpy and pyarrow are installed (`pip install "kraft[arrow]"`). Where it
        raises, or is cancelled, some of the rows may have been written.
        """
        from broker.client.arrow import writing

        batches: list[Batch] = []
        batch_bytes = min(max(writing.BATCH_BYTES, self.config.batch_size), self._record_size_max)
        for name, rows in writing.rows_by_topic(table, topic):
            routing = await self._known_routing(name, int(writing.given_partitions(rows).max()))
            for partition, records, size in writing.complete_batches(
                rows, routing, self._now_ms(), batch_bytes=batch_bytes, record_bytes_max=self._record_size_max
            ):
                await self._reserve(size)
                if self._refusal is not None:
                    self._memory.release(size)
                    raise copy_to_raise(self._refusal)
                # The topic may have been forgotten as idle while this waited.
                routing = self._routings.get(name) or self._route(name)
                batches.append(routing.add_complete_batch(partition, records, size))
            await trio.lowlevel.checkpoint()
        await wait_until_done(batches)
        return writing.written_offsets(batches)

    async def wait_for_room(self, size: int = 0) -> None:
        """Waits until a record of `size` bytes can be handed to `send_soon`. Raises TimedOut after `max.block.ms`.

        It returns without a checkpoint if there is room. With a size of 0 it waits for room for a batch.
        """
        wanted = min(size or self.config.batch_size, self.config.buffer_memory)
        if not self._memory.has_room(wanted):
            await self._reserve(wanted)
            self._memory.release(wanted)

    async def flush(self) -> None:
        """Sends what is batched, and waits until every record handed over before has its outcome."""
        self._sender.flushes += 1
        self._sender.wake()
        try:
            held = [routing.held for routing in self._routings.values() if routing.held is not None]
            await wait_until_done([*held, *self._accumulator.batches()])
        finally:
            self._sender.flushes -= 1

    async def partitions_for(self, topic: str) -> Sequence[PartitionMetadata]:
        """The partitions of a topic, which is created if the brokers create topics on demand.

        Raises TimedOut after `max.block.ms`, and KafkaError for a topic that this client may not see.
        """
        cluster = self._opened()
        cluster.follow_topics([topic])

        async def describe() -> Sequence[PartitionMetadata]:
            known = cluster.metadata.topic(topic)
            if known is None or not known.partitions:
                await cluster.refresh([topic], may_create=True)
                known = cluster.metadata.topic(topic)
            check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else known.error)
            assert known is not None, "checked"
            return known.partitions

        return await cluster.retried(describe, timeout_ms=self.config.max_block_ms)

    async def close(self, timeout_s: float = inf) -> None:
        """Takes no more records, waits until those it has have their outcome, and gives up the rest after the timeout.

        The `async with` block calls it at its end; call it yourself only for a timeout. A transaction that is still
        open is aborted. Raises UndeliveredRecords for records that failed and whose outcome has not been read.
        """
        if self._cluster is None or self._is_closed:
            return
        self._is_closed = True
        self._refusal = self._end = self._cluster.closed_error("the producer is closed: open another one")
        try:
            with trio.move_on_after(timeout_s):
                if self._cluster.failure is None:
                    if self._transactions is not None:
                        await self._transactions.close()
                    await self.flush()
        finally:
            self._sender.fail_all(self._cluster.closed_error(_UNACKNOWLEDGED))
        if (undelivered := self.unread_failures.take()) is not None:
            raise undelivered

    # The inside

    def _check_size(self, topic: str, size: int) -> None:
        if size > self._record_size_max:
            raise RecordTooLarge(
                f"a record of about {size} bytes for {topic} is larger than max.request.size"
                f" ({self.config.max_request_size}) or buffer.memory ({self.config.buffer_memory}) allows"
            )

    def _append(
        self,
        topic: str,
        key: Any,
        value: Any,
        headers: Sequence[Header],
        partition: int | None,
        timestamp_ms: int | None,
        size: int,
    ) -> Delivery:
        """Adds a record of bytes to its batch; the caller counts its size as used memory. This runs once per record."""
        if self._refusal is not None:
            raise copy_to_raise(self._refusal)
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= TIMESTAMP_MAX:
            timestamp_ms = timestamp(topic, timestamp_ms)
        routing = self._routings.get(topic) or self._route(topic)
        # Most records have no key, and there is room in the batch that takes them.
        sticky = routing.sticky if key is None and partition is None else None
        if sticky is None or (batch := sticky.filling) is None or batch.size + size > batch.limit:
            self._check_size(topic, size)
            batch = routing.batch_for(key, value, partition, size)
        records = batch.records
        index = len(records)
        records.append((timestamp_ms, key, value, headers))
        batch.size += size
        return Delivery(batch, index)

    def _route(self, topic: str) -> TopicRouting:
        cluster = self._opened()
        routing = TopicRouting(topic, self._accumulator, self._choice, self._hashes, trio.current_time)
        self._routings[topic] = routing
        cluster.follow_topics([topic])
        known = cluster.metadata.topic(topic)
        if known is not None:
            routing.update(known)
        return routing

    async def _known_routing(self, topic: str, greatest: int) -> TopicRouting:
        """The routing of a topic whose partitions are known. Raises as `partitions_for` does.

        If there is no partition `greatest` among them, every broker is asked for it: the topic may have got more.
        """
        if greatest >= len(await self.partitions_for(topic)):
            look = partial(look_for_topic, self._opened(), topic, lambda found: len(found.partitions) > greatest)
            await self._opened().retried(look, timeout_ms=self.config.max_block_ms)
        routing = self._routings.get(topic) or self._route(topic)
        known = self._opened().metadata.topic(topic)
        assert known is not None, "it was described"
        routing.update(known)
        return routing

    async def _reserve(self, size: int) -> None:
        """Waits until `size` bytes of the buffer are counted as used for the caller. Raises TimedOut."""
        granted = trio.Event()
        request = self._memory.request(size, granted.set)
        self._sender.wake()
        try:
            with trio.move_on_after(self.config.max_block_ms / 1000):
                await granted.wait()
                return
        except BaseException:
            self._memory.withdraw(request)
            raise
        self._memory.withdraw(request)
        raise TimedOut(
            f"buffer.memory ({self._memory.limit} bytes) was used up for {self.config.max_block_ms:g} ms"
            " (max.block.ms): the brokers take records more slowly than the application hands them over, or not at all"
        )

    def _refuse(self, error: Exception) -> None:
        self._refusal = self._end = error

    def _take_transaction_state(self) -> None:
        """Takes records within a transaction only."""
        if self._end is None and self._transactions is not None:
            self._refusal = self._transactions.state.refusal
            self._sender.wake()

    def _opened(self) -> Cluster:
        if self._end is not None:
            raise copy_to_raise(self._end)
        assert self._cluster is not None, "it is open"
        return self._cluster
