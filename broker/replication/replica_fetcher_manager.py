"""The replica fetchers of a broker: one for each broker that leads partitions which it follows."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import trio

from broker.replication.fetch_plan import PartitionKey
from broker.replication.fetcher_context import FetcherContext
from broker.replication.followed_partitions import partition_key
from broker.replication.partition import Partition

if TYPE_CHECKING:
    from broker.replication.replica_fetcher import ReplicaFetcher

# Makes truncations of these partitions' logs durable, so that they take appends again: `LogManager.settle`.
SettleLogs: TypeAlias = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]


class ReplicaFetcherManager:
    """Starts and assigns fetchers as `ReplicaManager` reports changed sources.

    A truncated log is settled before it is fetched again. Settling does not depend on a connection to the leader: the
    replica may be the next leader, and takes no appends until its log is settled.
    """

    def __init__(self, context: FetcherContext, settle_logs: SettleLogs) -> None:
        self._context = context
        self._settle_logs = settle_logs
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._fetcher_of: dict[PartitionKey, ReplicaFetcher] = {}
        self._unstarted: list[ReplicaFetcher] = []
        self._truncated: dict[Partition, None] = {}
        self._work = trio.Event()
        self._has_truncated = trio.Event()

    def followed(self, partitions: Sequence[Partition]) -> None:
        """Fetch these partitions from their current source, under their current leader epoch. Does not block."""
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
        """Each followed partition with the broker that it is fetched from."""
        for source_id, fetcher in self._fetchers.items():
            for key in fetcher.followed:
                yield key, source_id

    async def run(self) -> None:
        """Fetch until cancelled. Raises FsyncFailed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._settle_truncated)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                unstarted, self._unstarted = self._unstarted, []
                for fetcher in unstarted:
                    nursery.start_soon(fetcher.run)

    def _fetcher_for(self, partition: Partition) -> "ReplicaFetcher | None":
        source_id = partition.source
        if source_id is None or partition in self._truncated:
            return None
        fetcher = self._fetchers.get(source_id)
        if fetcher is None:
            from broker.replication.replica_fetcher import ReplicaFetcher  # for start-up time

            fetcher = self._fetchers[source_id] = ReplicaFetcher(self._context, source_id, self._partition_truncated)
            self._unstarted.append(fetcher)
            self._work.set()
        return fetcher

    def _partition_truncated(self, partition: Partition) -> None:
        self._truncated[partition] = None
        self._has_truncated.set()

    async def _settle_truncated(self) -> None:
        while True:
            await self._has_truncated.wait()
            self._has_truncated = trio.Event()
            truncated = list(self._truncated)
            await self._settle_logs([(partition.topic, partition.index) for partition in truncated])
            for partition in truncated:
                del self._truncated[partition]
            self.followed(truncated)
