"""Recorded clients of this package's client library for asyncio: AsyncioProducer and AsyncioConsumer."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from broker.client import AsyncioRebalanceListener, TopicPartition
from broker.client.aio.consumer import in_calling_task
from jepsen.testing.histories.recording.kraft_consumers import AwaitedReads, commit_callback
from jepsen.testing.histories.recording.kraft_consumers import group_of as group_of
from jepsen.testing.histories.recording.kraft_producers import RecordedProducer as RecordedProducer
from jepsen.testing.histories.recording.kraft_producers import is_abortable as is_abortable
from jepsen.testing.histories.recording.reads import ReadLog


def current_task() -> int:
    """A number for the running task; the same one for all callbacks of the loop, which no task calls."""
    return id(asyncio.current_task())


class _Listener(AsyncioRebalanceListener):
    def __init__(self, reads: ReadLog, listener: AsyncioRebalanceListener | None) -> None:
        self._reads, self._listener = reads, listener or AsyncioRebalanceListener()

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._listener.on_revoked(partitions)
        self._reads.given_up(partitions)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._reads.assigned(partitions)
        await self._listener.on_assigned(partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._reads.given_up(partitions, is_lost=True)
        await self._listener.on_lost(partitions)


class RecordedConsumer(AwaitedReads):
    """Records the reads and the commits of an AsyncioConsumer. Wrap it before its block is entered."""

    def __init__(self, client: Any, reads: ReadLog) -> None:
        super().__init__(client)
        self._reads = reads
        inner = client._consumer
        # As for an application's listener, the task that reads records the rebalances: the background thread must not
        # change what a commit of another task looks at.
        inner._listener = in_calling_task(_Listener(reads, getattr(inner._listener, "listener", None)))

    async def subscribe(self, *args: Any, listener: AsyncioRebalanceListener | None = None, **kwargs: Any) -> None:
        await self._recorded_client.subscribe(*args, listener=_Listener(self._reads, listener), **kwargs)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = list(partitions)
        await self._recorded_client.assign(chosen)
        self._reads.chosen((*each, -1) for each in chosen)

    async def seek(self, partition: TopicPartition, offset: Any) -> None:
        await self._recorded_client.seek(partition, offset)
        self._reads.sought([(*partition, getattr(offset, "offset", offset))])

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        await self._seek_to("seek_to_beginning", list(partitions))

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        await self._seek_to("seek_to_end", list(partitions))

    async def commit_soon(self, offsets: Any = None, callback: Any = None) -> None:
        await self._recorded_client.commit_soon(offsets, commit_callback(self._reads, offsets, callback))

    async def close(self) -> None:
        try:
            await self._recorded_client.close()
        finally:
            self._reads.closed()

    async def _seek_to(self, method: str, partitions: list[TopicPartition]) -> None:
        sought = partitions or sorted(await self._recorded_client.assignment())
        await getattr(self._recorded_client, method)(partitions)
        self._reads.sought((*each, -1) for each in sought)
