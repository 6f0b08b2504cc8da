"""Recorded consumers of this package's client library: Consumer and SyncConsumer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from broker.client import RebalanceListener, SyncRebalanceListener, TopicPartition
from jepsen.testing.histories.recording.reads import ReadLog, positions_of
from jepsen.testing.histories.recording.recorded_client import RecordedClient


def group_of(consumer: Any) -> str:
    """The group id of a consumer; empty if it has none."""
    return getattr(consumer, "_consumer", consumer)._config.group_id or ""


class _Listener(RebalanceListener):
    def __init__(self, reads: ReadLog, listener: RebalanceListener | None) -> None:
        self._reads, self._listener = reads, listener or RebalanceListener()

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._listener.on_revoked(partitions)
        self._reads.given_up(partitions)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._reads.assigned(partitions)
        await self._listener.on_assigned(partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._reads.given_up(partitions, is_lost=True)
        await self._listener.on_lost(partitions)


class _SyncListener(SyncRebalanceListener):
    def __init__(self, reads: ReadLog, listener: SyncRebalanceListener | None) -> None:
        self._reads, self._listener = reads, listener or SyncRebalanceListener()

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._listener.on_revoked(partitions)
        self._reads.given_up(partitions)

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._reads.assigned(partitions)
        self._listener.on_assigned(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._reads.given_up(partitions, is_lost=True)
        self._listener.on_lost(partitions)


def commit_callback(reads: ReadLog, offsets: Any, callback: Any) -> Callable[[Any, Exception | None], None]:
    """Record that a commit begins. The returned callback records its outcome and calls the application's, if any."""
    commit = reads.commit(None if offsets is None else positions_of(offsets))

    def committed(its_offsets: Any, error: Exception | None) -> None:
        commit.ended(error)
        if callback is not None:
            callback(its_offsets, error)

    return committed


class _RecordedReads(RecordedClient):
    """The methods that Consumer and SyncConsumer share, which are not awaited."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client)
        self._reads = reads

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = list(partitions)
        self._recorded_client.assign(chosen)
        self._reads.chosen((*each, -1) for each in chosen)

    def seek(self, partition: TopicPartition, offset: Any) -> None:
        self._recorded_client.seek(partition, offset)
        self._reads.sought([(*partition, getattr(offset, "offset", offset))])

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._seek_to("seek_to_beginning", list(partitions))

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._seek_to("seek_to_end", list(partitions))

    def commit_soon(self, offsets: Any = None, callback: Any = None) -> None:
        self._recorded_client.commit_soon(offsets, commit_callback(self._reads, offsets, callback))

    def _seek_to(self, method: str, partitions: list[TopicPartition]) -> None:
        sought = partitions or sorted(self._recorded_client.assignment())
        getattr(self._recorded_client, method)(partitions)
        self._reads.sought((*each, -1) for each in sought)


class AwaitedReads(RecordedClient):
    """The methods that are awaited by tasks of Trio and of asyncio alike."""

    _reads: ReadLog

    async def fetch(self, *args: Any, **kwargs: Any) -> Any:
        began_ns = self._reads.log.file.now_ns()
        records = await self._recorded_client.fetch(*args, **kwargs)
        self._reads.received_many(began_ns, records)
        return records

    async def fetch_arrow(self, *args: Any, **kwargs: Any) -> Any:
        self._reads.unrecorded("fetch_arrow")
        return await self._recorded_client.fetch_arrow(*args, **kwargs)

    def read_range(self, *args: Any, **kwargs: Any) -> Any:
        self._reads.unrecorded("read_range")
        return self._recorded_client.read_range(*args, **kwargs)

    async def commit(self, offsets: Any = None) -> None:
        with self._reads.commit(None if offsets is None else positions_of(offsets)):
            await self._recorded_client.commit(offsets)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        began_ns = self._reads.log.file.now_ns()
        record = await self._recorded_client.__anext__()
        self._reads.received_one(began_ns, record)
        return record

    async def __aenter__(self) -> Self:
        await self._recorded_client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        try:
            return await self._recorded_client.__aexit__(*error)
        finally:
            self._reads.closed()


class RecordedConsumer(AwaitedReads, _RecordedReads):
    """Records the reads and the commits of a Consumer. Wrap it before its block is entered."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client, reads)
        client._listener = _Listener(reads, client._listener)

    def subscribe(self, *args: Any, listener: RebalanceListener | None = None, **kwargs: Any) -> None:
        self._recorded_client.subscribe(*args, listener=_Listener(self._reads, listener), **kwargs)


class RecordedSyncConsumer(_RecordedReads):
    """Records the reads and the commits of a SyncConsumer. Wrap it before its first read."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client, reads)
        inner = client._consumer
        if inner._topics or inner._pattern is not None:
            given = getattr(inner._listener, "_listener", None)
            self.subscribe(inner._topics, pattern=inner._pattern, listener=given)

    def fetch(self, *args: Any, **kwargs: Any) -> Any:
        began_ns = self._reads.log.file.now_ns()
        records = self._recorded_client.fetch(*args, **kwargs)
        self._reads.received_many(began_ns, records)
        return records

    def fetch_arrow(self, *args: Any, **kwargs: Any) -> Any:
        self._reads.unrecorded("fetch_arrow")
        return self._recorded_client.fetch_arrow(*args, **kwargs)

    def read_range(self, *args: Any, **kwargs: Any) -> Any:
        self._reads.unrecorded("read_range")
        return self._recorded_client.read_range(*args, **kwargs)

    def subscribe(self, *args: Any, listener: SyncRebalanceListener | None = None, **kwargs: Any) -> None:
        self._recorded_client.subscribe(*args, listener=_SyncListener(self._reads, listener), **kwargs)

    def commit(self, offsets: Any = None) -> None:
        with self._reads.commit(None if offsets is None else positions_of(offsets)):
            self._recorded_client.commit(offsets)

    def close(self) -> None:
        try:
            self._recorded_client.close()
        finally:
            self._reads.closed()

    def __iter__(self) -> "RecordedSyncConsumer":
        return self

    def __next__(self) -> Any:
        began_ns = self._reads.log.file.now_ns()
        record = next(self._recorded_client)
        self._reads.received_one(began_ns, record)
        return record

    def __enter__(self) -> "RecordedSyncConsumer":
        return self

    def __exit__(self, *error: Any) -> Any:
        try:
            return self._recorded_client.__exit__(*error)
        finally:
            self._reads.closed()
