"""The variant of `Consumer` for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack

from broker.client.aio.calls import do_in_calling_task
from broker.client.aio.client import AsyncioClient, awaited, awaited_on_loop
from broker.client.arguments.calls import checks_arguments
from broker.client.consumer.config import ConsumerSettings
from broker.client.consumer.consumer import ARROW_RECORDS_MAX, Consumer
from broker.client.consumer.group import Assignor, RebalanceListener
from broker.client.consumer.group.subscribed_topics import Pattern
from broker.client.consumer.range_reader import RangeReader
from broker.client.consumer.record_reader import EncodedRecords
from broker.client.errors import ClosedError
from broker.client.hosted.taken_records import begin_of, begin_of_one, begin_of_table, seek_back, with_places
from broker.client.serializers import Deserializer
from broker.client.types import ConsumerRecord, Count, K, OffsetAndMetadata, TopicPartition, Uuid, V

T = TypeVar("T")

# The records after which an iteration lets other tasks run, though the next ones are here already.
_RECORDS_PER_STEP: Final = 200


class AsyncioRebalanceListener:
    """Base class of rebalance listeners of an AsyncioConsumer. Override what you need.

    The methods run in the task that iterates, fetches or closes, while that waits; they may call the consumer. For
    their meaning see `RebalanceListener`.
    """

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called before `partitions` are given up: the last chance to commit their offsets."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called at the end of every rebalance with the partitions that are new, possibly none."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when the member was removed from the group: other members may own `partitions` already."""
        await self.on_revoked(partitions)


@checks_arguments()
class AsyncioConsumer(AsyncioClient[Consumer[K, V]], Generic[K, V]):
    """`Consumer` for asyncio: the same methods. Those that are not async there are awaited, too.

        async with AsyncioConsumer("localhost:9092", topics=["orders"], group_id="tour") as consumer:
            async for record in consumer:
                ...

    One task at a time reads; other tasks of the same asyncio loop may call the other methods.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        topics: Iterable[str] = (),
        pattern: Pattern | None = None,
        listener: AsyncioRebalanceListener | None = None,
        assignors: Sequence[Assignor] = (),
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        config: Mapping[str, object] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Takes what `Consumer` takes. Raises ConfigError.

        Deserializers and assignors are called on the background thread.
        """
        self._consumer: Consumer[K, V] = Consumer(
            bootstrap_servers,
            topics=topics,
            pattern=pattern,
            listener=in_calling_task(listener),
            assignors=assignors,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            config=config,
            **settings,
        )
        self._iterated = 0
        super().__init__(self._consumer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the consumer. The record that a failed block was working on does not count as consumed."""
        await self._hosted.close(error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """The next record. Raises as `fetch` does."""
        # Records that are here already need no visit to the background loop. Either this task takes a record out of the
        # iterator or that loop does, which counts the ones that are left when it ends a run.
        self._iterated += 1
        if self._iterated % _RECORDS_PER_STEP == 0:
            await asyncio.sleep(0)
        if not self._hosted.belongs_to_parent:
            for record in self._consumer._ready():
                return record
        return await self._read(Consumer.__anext__, begin_of_one)

    async def fetch(
        self, max_records: Count | None = None, timeout_s: float | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """The next records; see `Consumer.fetch`. If the wait is cancelled, no record is taken."""
        return await self._read(lambda consumer: consumer.fetch(max_records, timeout_s), begin_of)

    async def fetch_arrow(
        self, max_records: Count = ARROW_RECORDS_MAX, timeout_s: float | None = None, *, columns: Sequence[str] = ()
    ) -> Any:
        """The next records as a pyarrow Table; see `Consumer.fetch_arrow`. If cancelled, no record is taken."""
        from broker.client.arrow import DEFAULT_COLUMNS

        wanted = columns or DEFAULT_COLUMNS
        read = with_places(wanted)
        table = await self._read(
            lambda consumer: consumer.fetch_arrow(max_records, timeout_s, columns=read), begin_of_table
        )
        return table.select(wanted)

    def read_range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        columns: Sequence[str] = (),
        topic_id: Uuid | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Any]:
        """Iterates over the records from `start` up to `end` of one partition; see `Consumer.read_range`.

        The asyncio loop decodes, while the background thread fetches what comes next.
        """

        async def begin(consumer: Consumer[K, V]) -> RangeReader:
            return consumer.read_range(partition, start, end, columns=columns, topic_id=topic_id, timeout_s=timeout_s)

        return self._read_range(begin)

    async def _read_range(self, begin: Callable[[Consumer[K, V]], Awaitable[RangeReader]]) -> AsyncIterator[Any]:
        async def fetch(consumer: Consumer[K, V]) -> EncodedRecords | None:
            return await reader.fetch()

        reader = await self._hosted.run(begin)
        while (records := await self._hosted.run(fetch)) is not None:
            for batch in reader.decode(records):
                yield batch

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: Pattern | None = None,
        listener: AsyncioRebalanceListener | None = None,
    ) -> None:
        """Reads the partitions of these topics that the group assigns; see `Consumer.subscribe`."""

        async def subscribe(consumer: Consumer[K, V]) -> None:
            consumer.subscribe(topics, pattern=pattern, listener=in_calling_task(listener))

        await self._hosted.run(subscribe)

    unsubscribe = awaited(Consumer.unsubscribe)
    assign = awaited_on_loop(Consumer.assign)
    assignment = awaited_on_loop(Consumer.assignment)
    pause = awaited_on_loop(Consumer.pause)
    resume = awaited_on_loop(Consumer.resume)
    paused = awaited_on_loop(Consumer.paused)
    seek = awaited_on_loop(Consumer.seek)
    seek_to_beginning = awaited_on_loop(Consumer.seek_to_beginning)
    seek_to_end = awaited_on_loop(Consumer.seek_to_end)
    position = awaited(Consumer.position)
    current_lag = awaited_on_loop(Consumer.current_lag)
    lag = awaited(Consumer.lag)
    commit = awaited(Consumer.commit)
    commit_soon = awaited_on_loop(Consumer.commit_soon)
    committed = awaited(Consumer.committed)
    group_metadata = awaited_on_loop(Consumer.group_metadata)
    beginning_offsets = awaited(Consumer.beginning_offsets)
    end_offsets = awaited(Consumer.end_offsets)
    offsets_for_times = awaited(Consumer.offsets_for_times)
    partitions_for = awaited(Consumer.partitions_for)
    topics = awaited(Consumer.topics)

    async def _read(
        self,
        read: Callable[[Consumer[K, V]], Awaitable[T]],
        begin_of: Callable[[T], Mapping[TopicPartition, OffsetAndMetadata]],
    ) -> T:
        """Reads records. If the task is cancelled when they are on their way, the consumer goes back to them."""
        taken: list[T] = []

        async def take(consumer: Consumer[K, V]) -> None:
            taken.append(await read(consumer))

        try:
            await self._hosted.run(take)
        except BaseException:
            if taken:
                with suppress(ClosedError):
                    await self._hosted.run(seek_back, begin_of(taken[0]))
            raise
        return taken[0]


class _InCallingTask(RebalanceListener):
    """Calls a listener of asyncio in the task whose call the consumer carries out."""

    def __init__(self, listener: AsyncioRebalanceListener) -> None:
        self.listener = listener

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await do_in_calling_task(partial(self.listener.on_revoked, partitions))

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await do_in_calling_task(partial(self.listener.on_assigned, partitions))

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await do_in_calling_task(partial(self.listener.on_lost, partitions))


def in_calling_task(listener: AsyncioRebalanceListener | None) -> RebalanceListener | None:
    """The listener for the consumer on the background loop."""
    return None if listener is None else _InCallingTask(listener)
