"""The fetchers of a broker, one for each broker that leads partitions of which it has a replica."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

import trio

from broker.replication.fetch_plan import PartitionKey
from broker.replication.fetcher import Fetcher, FetcherSurroundings, partition_key
from broker.replication.partition import Partition

# Makes final what was cut off the logs of these partitions, so that they may be appended to: `LogDirs.settle`.
SettleLogs: TypeAlias = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]


class Fetchers:
    """Hears from `Partitions` which replica follows whom. A log that was cut is settled before it follows again.

    Settling needs no connection: whoever was cut may be the next to lead, and takes no appends before.
    """

    def __init__(self, surroundings: FetcherSurroundings, settle_logs: SettleLogs) -> None:
        self._surroundings = surroundings
        self._settle_logs = settle_logs
        self._fetchers: dict[int, Fetcher] = {}
        self._fetcher_of: dict[PartitionKey, Fetcher] = {}
        self._unstarted: list[Fetcher] = []
        self._cut: dict[Partition, None] = {}
        self._work = trio.Event()
        self._is_cut = trio.Event()

    def followed(self, partitions: Sequence[Partition]) -> None:
        """Whom these partitions follow, or under which leader epoch, has changed. Does not block."""
        for partition in partitions:
            key = partition_key(partition)
            before = self._fetcher_of.pop(key, None)
            fetcher = self._fetcher_for(partition)
            if before is not None and before is not fetcher:
                before.forget(partition)
            if fetcher is not None:
                self._fetcher_of[key] = fetcher
                fetcher.follow(partition)

    def sources(self) -> Iterator[tuple[PartitionKey, int]]:
        """Each partition with the broker that it is fetched from."""
        for source_id, fetcher in self._fetchers.items():
            for key in fetcher.followed:
                yield key, source_id

    async def run(self) -> None:
        """Fetch until cancelled. Raises FsyncFailed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._settle_cut)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                unstarted, self._unstarted = self._unstarted, []
                for fetcher in unstarted:
                    nursery.start_soon(fetcher.run)

    def _fetcher_for(self, partition: Partition) -> Fetcher | None:
        source_id = partition.source
        if source_id is None or partition in self._cut:
            return None
        fetcher = self._fetchers.get(source_id)
        if fetcher is None:
            fetcher = self._fetchers[source_id] = Fetcher(self._surroundings, source_id, self._was_cut)
            self._unstarted.append(fetcher)
            self._work.set()
        return fetcher

    def _was_cut(self, partition: Partition) -> None:
        self._cut[partition] = None
        self._is_cut.set()

    async def _settle_cut(self) -> None:
        while True:
            await self._is_cut.wait()
            self._is_cut = trio.Event()
            cut = list(self._cut)
            await self._settle_logs([(partition.topic, partition.index) for partition in cut])
            for partition in cut:
                del self._cut[partition]
            self.followed(cut)
