"""The blocking variant of `Consumer`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from broker.client.arguments.calls import checks_arguments
from broker.client.blocking.calls import do_in_calling_thread
from broker.client.blocking.client import BlockingClient, blocking, on_loop
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


class SyncRebalanceListener:
    """Base class of rebalance listeners of a SyncConsumer. Override what you need.

    The methods run on the thread that iterates, fetches or closes, while that waits; they may call the consumer. For
    their meaning see `RebalanceListener`.
    """

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called before `partitions` are given up: the last chance to commit their offsets."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called at the end of every rebalance with the partitions that are new, possibly none."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when the member was removed from the group: other members may own `partitions` already."""
        self.on_revoked(partitions)


@checks_arguments()
class SyncConsumer(BlockingClient[Consumer[K, V]], Generic[K, V]):
    """`Consumer` for scripts, notebooks and threads: the same methods, which block.

        with SyncConsumer("localhost:9092", topics=["orders"], group_id="tour") as consumer:
            for record in consumer:
                ...

    One thread at a time reads; other threads may call the other methods.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        topics: Iterable[str] = (),
        pattern: Pattern | None = None,
        listener: SyncRebalanceListener | None = None,
        assignors: Sequence[Assignor] = (),
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        config: Mapping[str, object] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Takes what `Consumer` takes. Deserializers and assignors are called by the loop. Raises ConfigError."""
        self._consumer: Consumer[K, V] = Consumer(
            bootstrap_servers,
            topics=topics,
            pattern=pattern,
            listener=_on_calling_thread(listener),
            assignors=assignors,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            config=config,
            **settings,
        )
        super().__init__(self._consumer)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the consumer. The record that a failed block was working on does not count as consumed."""
        self._hosted.close(error)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """The next record. Raises as `fetch` does."""
        # Records that are here already need no visit to the loop. Either this thread takes a record out of the
        # iterator or the loop does, which counts the ones that are left when it ends a run.
        if not self._hosted.belongs_to_parent:
            for record in self._consumer._ready():
                return record
        return self._read(Consumer.__anext__, begin_of_one)

    def fetch(self, max_records: Count | None = None, timeout_s: float | None = None) -> list[ConsumerRecord[K, V]]:
        """The next records; see `Consumer.fetch`. If the wait is interrupted, no record is taken."""
        return self._read(lambda consumer: consumer.fetch(max_records, timeout_s), begin_of)

    def fetch_arrow(
        self, max_records: Count = ARROW_RECORDS_MAX, timeout_s: float | None = None, *, columns: Sequence[str] = ()
    ) -> Any:
        """The next records as a pyarrow Table; see `Consumer.fetch_arrow`. If interrupted, no record is taken."""
        from broker.client.arrow import DEFAULT_COLUMNS

        wanted = columns or DEFAULT_COLUMNS
        read = with_places(wanted)
        table = self._read(lambda consumer: consumer.fetch_arrow(max_records, timeout_s, columns=read), begin_of_table)
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
    ) -> Iterator[Any]:
        """The records from `start` up to `end` of one partition; see `Consumer.read_range`.

        The calling thread decodes, while the background thread fetches what comes next.
        """

        async def begin(consumer: Consumer[K, V]) -> RangeReader:
            return consumer.read_range(partition, start, end, columns=columns, topic_id=topic_id, timeout_s=timeout_s)

        async def fetch(consumer: Consumer[K, V]) -> EncodedRecords | None:
            return await reader.fetch()

        reader = self._hosted.run(begin)
        while (records := self._hosted.run(fetch)) is not None:
            yield from reader.decode(records)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: Pattern | None = None,
        listener: SyncRebalanceListener | None = None,
    ) -> None:
        """Reads the partitions of these topics that the group assigns; see `Consumer.subscribe`."""

        async def subscribe(consumer: Consumer[K, V]) -> None:
            consumer.subscribe(topics, pattern=pattern, listener=_on_calling_thread(listener))

        self._hosted.run(subscribe)

    unsubscribe = blocking(Consumer.unsubscribe)
    assign = on_loop(Consumer.assign)
    assignment = on_loop(Consumer.assignment)
    pause = on_loop(Consumer.pause)
    resume = on_loop(Consumer.resume)
    paused = on_loop(Consumer.paused)
    seek = on_loop(Consumer.seek)
    seek_to_beginning = on_loop(Consumer.seek_to_beginning)
    seek_to_end = on_loop(Consumer.seek_to_end)
    position = blocking(Consumer.position)
    current_lag = on_loop(Consumer.current_lag)
    lag = blocking(Consumer.lag)
    commit = blocking(Consumer.commit)
    commit_soon = on_loop(Consumer.commit_soon)
    committed = blocking(Consumer.committed)
    group_metadata = on_loop(Consumer.group_metadata)
    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    partitions_for = blocking(Consumer.partitions_for)
    topics = blocking(Consumer.topics)

    def _read(
        self,
        read: Callable[[Consumer[K, V]], Awaitable[T]],
        begin_of: Callable[[T], Mapping[TopicPartition, OffsetAndMetadata]],
    ) -> T:
        """Reads records. If the thread is interrupted when they are on their way, the consumer goes back to them."""
        taken: list[T] = []

        async def take(consumer: Consumer[K, V]) -> None:
            taken.append(await read(consumer))

        try:
            self._hosted.run(take)
        except BaseException:
            if taken:
                with suppress(ClosedError):
                    self._hosted.run(seek_back, begin_of(taken[0]))
            raise
        return taken[0]


class _OnCallingThread(RebalanceListener):
    """Calls a blocking listener on the thread whose call the consumer carries out."""

    def __init__(self, listener: SyncRebalanceListener) -> None:
        self._listener = listener

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await do_in_calling_thread(partial(self._listener.on_revoked, partitions))

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await do_in_calling_thread(partial(self._listener.on_assigned, partitions))

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await do_in_calling_thread(partial(self._listener.on_lost, partitions))


def _on_calling_thread(listener: SyncRebalanceListener | None) -> RebalanceListener | None:
    return None if listener is None else _OnCallingThread(listener)
