"""The share consumer: takes records as a member of a share group, and acknowledges each of them."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Generic, Self, Unpack

import trio

from broker.client.arguments.calls import checks_arguments
from broker.client.environment import Environment
from broker.client.errors import ClientError, ClientFailed, ClosedError
from broker.client.open_cluster import open_cluster
from broker.client.results import Results
from broker.client.serializers import Deserializer
from broker.client.share_consumer.config import ShareConsumerSettings, read_share_config
from broker.client.share_consumer.deliveries import Deliveries
from broker.client.share_consumer.engine import AcknowledgementCallback, ShareConsumerEngine
from broker.client.types import K, ShareRecord, TopicPartition, V
from metadata.protocol import AcknowledgeType


@checks_arguments()
class ShareConsumer(Generic[K, V]):
    """Takes records as a member of a share group, as an async iterator or in batches with `fetch` (KIP-932).

        async with ShareConsumer("localhost:9092", topics=["jobs"], group_id="workers") as consumer:
            async for record in consumer:
                ...

    The members of a share group read the same partitions, and each record is delivered to one of them at a time. A
    member acquires records with a lock of limited time, and acknowledges them; a record that is released, or whose lock
    times out, is delivered again, up to `share.delivery.count.limit` of the group.

    With `share_acknowledgement_mode="implicit"`, a record is accepted when the next one is asked for: by the next
    `fetch` or step of the iteration, or by `commit`. With "explicit", `acknowledge` says what became of each record,
    and every record has to be acknowledged before the next fetch. At the end of the block, what was acknowledged is
    sent, and every other record is released.

    `topics` subscribe as `subscribe` does. Settings are Kafka's keys with underscores, or `config`, a dict of Kafka's
    keys. `on_acknowledged` is called with a partition, the offsets of records whose acknowledgement has ended, and the
    error, or None. One task at a time reads; other tasks of the same event loop may call the other methods.

    A ShareConsumer[K, V] returns keys and values of the types that its deserializers return, bytes unless they are
    given.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        topics: Iterable[str] = (),
        on_acknowledged: AcknowledgementCallback | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        config: Mapping[str, object] | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        """Raises ConfigError."""
        self._config = read_share_config(bootstrap_servers, config, settings)
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._on_acknowledged = on_acknowledged
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._environment = environment
        self._lifetime: AbstractAsyncContextManager[None] | None = None
        self._engine: ShareConsumerEngine[K, V] | None = None
        self._failure: ClientFailed | None = None

    async def __aenter__(self) -> Self:
        if self._lifetime is not None:
            raise ClosedError("a share consumer is opened once; make another one")
        self._lifetime = self._open()
        await self._lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._lifetime is not None, "the block was entered"
        return await self._lifetime.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        async with open_cluster(self._config, self._environment) as cluster:
            engine: ShareConsumerEngine[K, V] = ShareConsumerEngine(
                cluster, self._config, self._key_deserializer, self._value_deserializer, self._on_acknowledged
            )
            self._engine = engine
            if self._topics:
                engine.member.subscribe(self._topics)
            cluster.nursery.start_soon(engine.run)
            is_cancelled = False
            try:
                yield
            except trio.Cancelled:
                is_cancelled = True
                raise
            finally:
                try:
                    await engine.close(is_cancelled=is_cancelled)
                finally:
                    self._engine, self._failure = None, cluster.failure

    def _opened(self) -> ShareConsumerEngine[K, V]:
        if self._engine is None:
            reason = "the share consumer is not open: use it within `async with ShareConsumer(...) as consumer`"
            raise ClosedError(reason) from self._failure
        if self._engine.cluster.failure is not None:
            raise self._engine.cluster.closed_error("the share consumer is closed; open another one")
        return self._engine

    # Reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord[K, V]:
        """The next record. Raises as `fetch` does."""
        return (await self._opened().next()).record

    async def fetch(self, timeout_s: float | None = None) -> list[ShareRecord[K, V]]:
        """The next records, in the order of their offsets within each partition.

        Waits for records up to `timeout_s`; None waits without a limit. With `share_acquire_mode="record_limit"`, there
        are at most `max.poll.records`; with "batch_optimized", the last batch of a producer may exceed it. A cancelled
        call has taken no record.

        Raises UnreadableRecords where records cannot be delivered; ClientError with explicit acknowledgement if a
        record of an earlier fetch was not acknowledged; KafkaError where a broker refuses (as without authorization);
        UnsupportedByBroker where the cluster has no share groups. Where nothing came in the time, it raises
        ConnectionLost if the brokers cannot be reached, and KafkaError with UNKNOWN_TOPIC_OR_PARTITION if no topic
        exists. The next call tries again.
        """
        engine = self._opened()
        taken = await engine.fetch(timeout_s)
        engine.deliveries.give(taken)
        return [delivery.record for delivery in taken]

    def _take_back(self, records: Sequence[ShareRecord[K, V]]) -> None:
        """Has records given again that did not reach their caller."""
        engine = self._opened()
        engine.queue.put_back(engine.deliveries.take_back(records))

    # Subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Takes records of these topics from now on, instead of those before. Raises ConfigError if there are none."""
        self._opened().member.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Leaves the group. Records that were given before can still be acknowledged."""
        await self._opened().member.leave()

    def subscription(self) -> set[str]:
        """The topics that this consumer is subscribed to."""
        return set(self._opened().member.subscribed_names)

    # Acknowledgement

    def acknowledge(self, record: ShareRecord[K, V], outcome: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Says what became of a record. The next fetch or `commit` sends it; until then, another outcome replaces it.

        ACCEPT: it was processed. RELEASE: another delivery may succeed. REJECT: it is never delivered again. RENEW: it
        is still being processed, and its lock begins again when the outcome has been sent (KIP-1222). A renewed record
        is acknowledged once more, or the next fetch returns it again.

        Raises RecordNotAcquired; ClientError unless acknowledgement is explicit.
        """
        self._explicit().acknowledge(TopicPartition(record.topic, record.partition), record.offset, outcome)

    def acknowledge_offset(
        self, partition: TopicPartition, offset: int, outcome: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """As `acknowledge`, by the place of a record; also of one for which `fetch` has raised UnreadableRecords."""
        self._explicit().acknowledge(partition, offset, outcome)

    def _explicit(self) -> Deliveries[K, V]:
        engine = self._opened()
        if not self._config.is_explicit:
            raise ClientError("acknowledge() needs share.acknowledgement.mode=explicit; the next fetch accepts records")
        return engine.deliveries

    async def commit(self, timeout_s: float | None = None) -> Results[TopicPartition, None]:
        """Sends what records were acknowledged with, and returns the result of each partition.

        With implicit acknowledgement, it first accepts every record that was returned, the last one included. An error
        concerns all records of its partition that were sent: KafkaError with INVALID_RECORD_STATE if the lock of one of
        them has timed out. TimedOut is the result after `timeout_s`, by default `default.api.timeout.ms`.
        """
        return await self._opened().commit(timeout_s)

    def commit_soon(self) -> None:
        """Sends as `commit` does, in the background; `on_acknowledged` is told the results."""
        engine = self._opened()
        engine.settle_given()
        engine.send_acknowledgements(is_alone=True)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long this consumer may keep a record before it is delivered again; None before the first fetch.

        It is that of the group (`share.record.lock.duration.ms`), as the last response said.
        """
        return self._opened().responses.lock_timeout_ms
