"""The consumer: reads records from partitions that the user assigns, or the consumer's group."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack

import trio

from broker.client.arguments.calls import Arguments, checks_arguments
from broker.client.config import read_config
from broker.client.consumer.config import ConsumerConfig, ConsumerSettings
from broker.client.consumer.engine import ConsumerEngine
from broker.client.consumer.group import Assignor, GroupMetadata, RebalanceListener
from broker.client.consumer.group.offsets import CommitCallback
from broker.client.consumer.group.subscribed_topics import Pattern
from broker.client.consumer.offset_reset import EARLIEST, LATEST, OffsetReset
from broker.client.consumer.positions import Position
from broker.client.consumer.range_reader import RangeReader
from broker.client.consumer.record_reader import RecordReader
from broker.client.environment import Environment
from broker.client.errors import ClientFailed, ClosedError, ConfigError
from broker.client.metadata_cache import PartitionMetadata
from broker.client.open_cluster import open_cluster
from broker.client.serializers import Deserializer
from broker.client.types import ConsumerRecord, Count, K, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, Uuid, V

# Rows of one Arrow table, unless the caller says otherwise: tens of MiB of records of a few hundred bytes.
ARROW_RECORDS_MAX: Final = 100_000

_Taken = TypeVar("_Taken")


@checks_arguments(but_not=("fetch",))
class Consumer(Generic[K, V]):
    """Reads records, as an async iterator or in batches with `fetch`.

        async with Consumer("localhost:9092", topics=["orders"], group_id="tour") as consumer:
            async for record in consumer:
                ...

    `topics` or `pattern` subscribe as `subscribe` does; without them, `assign` chooses partitions. Settings are Kafka's
    keys with underscores, or `config`, a dict of Kafka's keys. One task at a time reads; other tasks of the same event
    loop may call the other methods.

    A Consumer[K, V] returns keys and values of the types that its deserializers return, bytes unless they are given.

    A record counts as consumed when the next one is asked for: auto commit never includes the record that is being
    worked on.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        topics: Iterable[str] = (),
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
        assignors: Sequence[Assignor] = (),
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        config: Mapping[str, object] | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Raises ConfigError. `assignors` replace `partition.assignment.strategy`; the group is a classic one then."""
        self._config = read_config(ConsumerConfig, bootstrap_servers, config, settings)
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._pattern = pattern
        self._listener = listener
        self._assignors = assignors
        if (self._topics or pattern is not None) and self._config.group_id is None:
            raise ConfigError("topics and pattern need a group_id; without a group, assign() partitions in the block")
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._environment = environment
        self._lifetime: AbstractAsyncContextManager[None] | None = None
        self._engine: ConsumerEngine[K, V] | None = None
        self._failure: ClientFailed | None = None

    async def __aenter__(self) -> Self:
        if self._lifetime is not None:
            raise ClosedError("a consumer is opened once; make another one")
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
            engine: ConsumerEngine[K, V] = ConsumerEngine(
                cluster, self._config, self._key_deserializer, self._value_deserializer, self._assignors
            )
            self._engine = engine
            if self._topics or self._pattern is not None:
                engine.subscribe(self._topics, self._pattern, self._listener)
            cluster.nursery.start_soon(engine.run)
            try:
                yield
            except BaseException as error:
                await self._close(engine, error)
                raise
            else:
                await self._close(engine, None)

    async def _close(self, engine: ConsumerEngine[K, V], error: BaseException | None) -> None:
        try:
            await engine.close(is_failed=error is not None, is_cancelled=isinstance(error, trio.Cancelled))
        finally:
            self._engine, self._failure = None, engine.cluster.failure

    def _opened(self) -> ConsumerEngine[K, V]:
        if self._engine is None:
            reason = "the consumer is not open: use it within `async with Consumer(...) as consumer`"
            raise ClosedError(reason) from self._failure
        if self._engine.cluster.failure is not None:
            raise self._engine.cluster.closed_error("the consumer is closed; open another one")
        return self._engine

    # Reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """The next record. Raises as `fetch` does."""
        if self._engine is not None:
            for record in self._engine.reader.run:
                return record
        return await self._next_run()

    def _ready(self) -> Iterator[ConsumerRecord[K, V]]:
        """The records that iteration returns without waiting, for an iteration in another thread."""
        return iter(()) if self._engine is None else self._engine.reader.run

    async def _next_run(self) -> ConsumerRecord[K, V]:
        engine = self._opened()
        while True:
            await engine.poll()
            if engine.reader.begin_run(self._config.max_poll_records):
                return next(engine.reader.run)
            await engine.wait_for_change()

    async def fetch(
        self, max_records: Count | None = None, timeout_s: float | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """The next records, in the order of their offsets within each partition.

        Returns at once what was fetched ahead, at most `max_records` (`max.poll.records`). Where there is nothing, it
        waits for records, up to `timeout_s`; None waits without a limit. A cancelled call has taken no record.

        Raises PartitionFailed where a partition cannot be read on; KafkaError where a broker refuses (as without
        authorization); what a rebalance listener raises. Where nothing came in the time, it raises ConnectionLost if
        the brokers cannot be reached, and KafkaError with UNKNOWN_TOPIC_OR_PARTITION if there is no such partition or
        topic. The next call tries again.
        """
        is_right = (max_records is None or (type(max_records) is int and max_records > 0)) and (
            timeout_s is None or (type(timeout_s) in (float, int) and timeout_s >= 0)
        )
        if not is_right:
            (max_records, timeout_s), _ = _FETCH_ARGUMENTS.read((max_records, timeout_s), {})
        limit = self._config.max_poll_records if max_records is None else max_records
        return await self._poll_until(lambda reader: reader.take(limit), timeout_s)

    async def fetch_arrow(
        self, max_records: Count = ARROW_RECORDS_MAX, timeout_s: float | None = None, *, columns: Sequence[str] = ()
    ) -> Any:
        """The next records as a pyarrow Table: for many records, several times as fast as `fetch`.

        The columns are those of Spark's Kafka connector: key, value, topic, partition, offset, timestamp,
        timestampType; `columns` chooses others. More of them are `headers`, and producerId, producerEpoch and sequence
        of idempotent producers, which are null for records without one. Only these are decoded. Keys and values are
        the bytes as they were written: deserializers do not apply.

        It waits and raises as `fetch` does; the table is empty where the time is over. Raises ImportError unless numpy
        and pyarrow are installed (`pip install "kraft[arrow]"`), and ValueError for a column that does not exist.
        """
        from broker.client.arrow import schema_of, table_of

        schema = schema_of(_arrow_columns(columns))
        taken = await self._poll_until(lambda reader: reader.take_arrow(max_records, schema.names), timeout_s)
        return table_of(taken, schema)

    def read_range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        columns: Sequence[str] = (),
        topic_id: Uuid | None = None,
        timeout_s: float | None = None,
    ) -> RangeReader:
        """Iterates over the records of one partition from offset `start` up to, and without, `end`, in Arrow.

        It returns pyarrow RecordBatches, with the columns of `fetch_arrow`.

        Assigns the partition alone, and fetches nothing after the range. It ends exactly there, also where the last
        offsets of the range have no records. With a `topic_id` of 16 bytes, another topic that has been created with
        the same name is not read.

        Raises OffsetOutOfRange, whatever `auto.offset.reset` is, TopicDeleted, CorruptRecords; KafkaError where a
        broker refuses; TimedOut if nothing comes for `timeout_s`.
        """
        return RangeReader(self._opened(), partition, start, end, _arrow_columns(columns), topic_id, timeout_s)

    async def _poll_until(
        self, take: Callable[[RecordReader[K, V]], list[_Taken]], timeout_s: float | None
    ) -> list[_Taken]:
        """Polls until `take` returns something, or the time is over."""
        engine = self._opened()
        deadline = inf if timeout_s is None else trio.current_time() + timeout_s
        while True:
            await engine.poll()
            taken = take(engine.reader)
            if taken:
                return taken
            if trio.current_time() >= deadline:
                await engine.obstacles.check()
                return taken
            await engine.wait_for_change(deadline)

    # Subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Reads the partitions of these topics that the group assigns. Replaces the subscription and the listener.

        A `pattern` matches whole names of topics, also of later ones. Given as text, it is evaluated by the coordinator
        in RE2's syntax where that has the consumer protocol (KIP-848); a compiled one is evaluated here. The listener's
        methods run in the task that reads, when it asks for more. Raises ClientError without a `group_id`; ConfigError.
        """
        self._opened().subscribe(topics, pattern, listener)

    async def unsubscribe(self) -> None:
        """Ends the subscription or the assignment. A member commits, gives up its partitions and leaves its group."""
        await self._opened().unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these partitions, chosen by the caller. Partitions that stay assigned keep their positions."""
        self._opened().assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read at present."""
        return self._opened().subscription.assignment()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Returns no records of these partitions until `resume`. Raises NotAssigned."""
        self._opened().pause(partitions, is_paused=True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Returns records of these partitions again. Raises NotAssigned."""
        self._opened().pause(partitions, is_paused=False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {each.partition for each in self._opened().subscription.partitions if each.is_paused}

    # Positions

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Reads on from this offset. The leader epoch of an OffsetAndMetadata detects a truncated log (KIP-320).

        Raises NotAssigned; ValueError for a negative offset.
        """
        target = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if target.offset < 0:
            raise ValueError(f"offset {target.offset} is negative; seek_to_beginning() and seek_to_end() find the ends")
        self._opened().seek(partition, Position(target.offset, target.leader_epoch))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Reads on from the first record of these partitions, of all that are assigned if there are none."""
        self._opened().reset(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Reads only what is written from now on to these partitions, to all that are assigned if there are none."""
        self._opened().reset(partitions, LATEST)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record. Waits until it is known.

        Raises NotAssigned, PartitionFailed, KafkaError, and TimedOut after `default.api.timeout.ms`.
        """
        engine = self._opened()
        engine.reader.end_run()
        return (await engine.wait_for_position(partition)).offset

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is before the end, by the last Fetch; None before the first one.

        The end is the last stable offset with `isolation.level=read_committed`. Raises NotAssigned.
        """
        engine = self._opened()
        engine.reader.end_run()
        is_committed = self._config.isolation_level == "read_committed"
        return engine.subscription.assigned(partition).lag(read_committed=is_committed)

    async def lag(self, partitions: Iterable[TopicPartition] = ()) -> dict[TopicPartition, int]:
        """How many offsets the positions are before the ends, by asking the leaders; of all assigned by default.

        Raises NotAssigned, PartitionFailed, KafkaError, TimedOut.
        """
        chosen = list(partitions) or sorted(self.assignment())
        positions = {partition: await self.position(partition) for partition in chosen}
        ends = await self.end_offsets(chosen)
        return {partition: max(ends[partition] - offset, 0) for partition, offset in positions.items()}

    # Committed offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Commits these offsets, or the positions: after all records that were returned, the last one included.

        Returns when they are committed, and all that was to be committed before. Raises CommitFailed,
        RebalanceInProgress, KafkaError; TimedOut after `default.api.timeout.ms`; ClientError without a `group_id`.
        """
        engine = self._opened()
        await engine.need_group("commit()").commit(engine.consumed_offsets() if offsets is None else offsets)

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commits in the background, in the order of the calls; `callback` gets the offsets and the error, or None.

        Raises ClientError without a `group_id`, and where too many commits wait.
        """
        engine = self._opened()
        group = engine.need_group("commit_soon()")
        group.commit_soon(engine.consumed_offsets() if offsets is None else offsets, callback)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets, None where there is none. Raises KafkaError, TimedOut, ClientError."""
        return await self._opened().need_group("committed()").committed(list(partitions))

    def group_metadata(self) -> GroupMetadata:
        """This consumer's place in its group, for transactions (KIP-447). Raises ClientError without a `group_id`."""
        return self._opened().need_group("group_metadata()").group_metadata()

    # The cluster

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition. Raises KafkaError, TimedOut."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that this consumer may read. Raises KafkaError, TimedOut.

        With `isolation.level=read_committed`, it is that of the first record of an open transaction, if there is one.
        """
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: Iterable[TopicPartition], end: OffsetReset) -> dict[TopicPartition, int]:
        found = await self._opened().lookups.list_offsets(dict.fromkeys(partitions, end.timestamp))
        return {partition: listed.offset for partition, listed in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition at or after a time, in milliseconds since 1970; None where there is none.

        Raises KafkaError, TimedOut; ValueError for a negative time.
        """
        if negative := [timestamp for timestamp in timestamps_ms.values() if timestamp < 0]:
            raise ValueError(f"{negative[0]} is not a time: use beginning_offsets() or end_offsets() for the ends")
        found = await self._opened().lookups.list_offsets(timestamps_ms)
        return {
            partition: None if listed.offset < 0 else OffsetAndTimestamp(*listed) for partition, listed in found.items()
        }

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """The partitions of a topic, in order; none if it does not exist. Raises KafkaError, TimedOut."""
        return list((await self._opened().describe([topic])).get(topic, []))

    async def topics(self) -> dict[str, list[PartitionMetadata]]:
        """All topics and their partitions. Raises KafkaError, TimedOut."""
        return {name: list(partitions) for name, partitions in (await self._opened().describe(None)).items()}


_FETCH_ARGUMENTS: Final = Arguments(Consumer.fetch)


def _arrow_columns(columns: Sequence[str]) -> Sequence[str]:
    """The columns that are read where a call chooses none. Raises ImportError without numpy and pyarrow."""
    from broker.client.arrow import DEFAULT_COLUMNS

    return columns or DEFAULT_COLUMNS
