"""Runs one kind of coordinator on this broker, with a shard for each partition of its topic that this broker leads.

Requests are decided on a shard's state, their records are appended and replayed at once, and their responses leave when
the records are committed. A shard is loaded from the log when this broker becomes the partition's leader, and closed
when the leader epoch ends.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from enum import IntEnum
from traceback import format_exception
from typing import Any, Final, Generic, TypeVar

import trio

from broker.coordinator.runtime.completion import Completion, failed
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.hosted_shard import HostedShard, Phase, ShardServices, not_coordinator
from broker.coordinator.runtime.java_hash import java_hash
from broker.coordinator.runtime.partition_writer import AppendScheduler
from broker.coordinator.runtime.shard import CoordinatorShard, ShardContext
from broker.coordinator.runtime.shard_loader import LoadingAborted, ShardLoader
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.net.deadlines import Deadlines
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.wire.records import Compression
from kraft import lazy_attrs
from kraft.env import FsyncFailed, Tracer
from metadata.image import MetadataDelta, MetadataImage

# How long shards are loaded before other tasks run, as long as nothing is waited for.
_LOADING_S: Final = 0.005

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")


class CoordinatorKeyType(IntEnum):
    """The key types of FindCoordinator: which kind of coordinator a key belongs to."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@lazy_attrs.frozen(kw_only=True)
class RuntimeSettings:
    """`topic` is the internal topic; `partition_count` is the number of partitions with which it will be created.

    A response waits at most `write_timeout_ms` for its commit. Loading reads `load_buffer_bytes` at a time. For
    `append_linger_ms` see `AppendScheduler`. If the topic is not compacted, a record does not replace earlier ones of
    its key, and all records of the log are replayed.
    """

    topic: str
    partition_count: int
    write_timeout_ms: int
    load_buffer_bytes: int
    compression: Compression
    append_linger_ms: int
    is_compacted: bool = True


class CoordinatorRuntime(Generic[S]):
    """Routes requests to shards, loads and closes them.

    `leadership_changed` and `publish` have to be subscribed to partitions and metadata. `run` loads shards until it is
    cancelled.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        make_state: Callable[[ShardContext], S],
        *,
        partitions: ReplicaManager,
        deadlines: Deadlines,
        now_ms: Callable[[], int],
        image: Callable[[], MetadataImage],
        trace: Tracer,
    ) -> None:
        self.settings = settings
        self._make_state = make_state
        self._trace = trace
        self._shards: dict[int, HostedShard[S]] = {}
        self._to_load: deque[HostedShard[S]] = deque()
        self._partition_count = self._partitions_of_topic(image())
        self._loaded_listeners: list[Callable[[int], None]] = []
        self._wanted = trio.Event()
        self._arrival = trio.Event()
        self._services = ShardServices(
            appender=AppendScheduler(partitions, deadlines, settings.compression, settings.append_linger_ms),
            deadlines=deadlines,
            write_timeout_ms=settings.write_timeout_ms,
            now_ms=now_ms,
            image=image,
            trace=trace,
            reload=self._reload,
        )

    # Requests

    def partition_for(self, key: str) -> int:
        """The partition that a group id or a transactional id belongs to."""
        return java_hash(key) % self._partition_count

    def write(self, partition: int, decide: Callable[[S, int], Decision[T]]) -> Completion[T]:
        """Calls `decide` with the partition's state and the time of day in ms; completes with the response when it is
        committed.

        `decide` must not change the state. It may raise KafkaError, which is the outcome then. Other errors are
        COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, and COORDINATOR_NOT_AVAILABLE if records cannot be committed.
        """
        shard = self._shards.get(partition)
        return failed(not_coordinator()) if shard is None else shard.write(decide)

    def read(self, partition: int, ask: Callable[[S, int], T]) -> Completion[T]:
        """Completes with the result of `ask` when the state that it read is committed; fails with the errors of
        `write`.
        """
        shard = self._shards.get(partition)
        return failed(not_coordinator()) if shard is None else shard.read(ask)

    def complete_transaction(self, partition: int, marker: TransactionMarker) -> Completion[None]:
        """Appends the end of a transaction to the partition; completes when it is committed. Fails as `write` does,
        and with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        shard = self._shards.get(partition)
        return failed(not_coordinator()) if shard is None else shard.complete_transaction(marker)

    def when_loaded(self, listener: Callable[[int], None]) -> None:
        """Have `listener` called with each partition whose shard has been loaded. It must not block."""
        self._loaded_listeners.append(listener)

    def epoch(self, partition: int) -> int | None:
        """The leader epoch in which this broker coordinates the partition; None if it does not."""
        shard = self._shards.get(partition)
        return None if shard is None else shard.epoch

    def schedule(
        self, partition: int, key: Hashable, delay_ms: float, decide: Callable[[S, int], Decision[None]]
    ) -> None:
        """As the state's own `Timers.schedule`; nothing where there is no state."""
        shard = self._shards.get(partition)
        if shard is not None and shard.phase is Phase.ACTIVE:
            shard.timers.schedule(key, delay_ms, decide)

    def cancel(self, partition: int, key: Hashable) -> None:
        """As the state's own `Timers.cancel`."""
        shard = self._shards.get(partition)
        if shard is not None:
            shard.timers.cancel(key)

    def phase(self, partition: int) -> Phase:
        """The phase of the partition's shard; CLOSED if there is none."""
        shard = self._shards.get(partition)
        return Phase.CLOSED if shard is None else shard.phase

    def coordinates(self, partition: int) -> bool:
        """True if the partition's shard is on this broker, be it still loading."""
        return partition in self._shards

    async def wait_until_coordinated(self, partitions: Collection[int], timeout_s: float) -> None:
        """Waits until the shards of all these partitions are on this broker, or until `timeout_s` is over."""
        with trio.move_on_after(timeout_s):
            while not all(map(self.coordinates, partitions)):
                await self._arrival.wait()

    @property
    def active_states(self) -> list[S]:
        """The states of the shards that are loaded, for metrics. Only `write` and `read` may be used for responses."""
        return [shard.state for shard in self._shards.values() if shard.phase is Phase.ACTIVE]

    @property
    def led_partitions(self) -> list[int]:
        """The partitions whose shards are on this broker, also those that are still loading."""
        return sorted(self._shards)

    # Leadership and metadata

    def leadership_changed(self, partitions: Sequence[Partition]) -> None:
        """Called with partitions that this broker leads in a new leader epoch, or no longer leads. Must not fail."""
        for partition in partitions:
            if partition.topic == self.settings.topic:
                shard = self._shards.get(partition.index)
                if shard is None or shard.partition is partition or partition.leads:  # not of a deleted topic
                    self._unload(partition.index)
                    if partition.leads:
                        self._start_loading(partition)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called with each new image of the metadata, after the publishers that call `leadership_changed`."""
        self._partition_count = self._partitions_of_topic(image)
        for shard in list(self._shards.values()):
            shard.metadata_changed(delta, image)

    def _partitions_of_topic(self, image: MetadataImage) -> int:
        topic = image.topics.by_name.get(self.settings.topic)
        return self.settings.partition_count if topic is None else len(topic.partitions)

    async def run(self) -> None:
        """Loads shards one after the other, until cancelled."""
        while True:
            until = trio.current_time() + _LOADING_S
            while self._to_load:
                shard = self._to_load.popleft()
                if shard.phase is Phase.LOADING:
                    await self._load(shard)
                    # Short logs are read without waiting, and there may be many of them.
                    if trio.current_time() > until:
                        await trio.lowlevel.checkpoint()
                        until = trio.current_time() + _LOADING_S
            self._wanted = trio.Event()
            await self._wanted.wait()

    def _start_loading(self, partition: Partition) -> None:
        shard = HostedShard(partition, self._make_state, self._services)
        self._shards[partition.index] = shard
        self._to_load.append(shard)
        self._wanted.set()
        self._arrival.set()
        self._arrival = trio.Event()

    def _unload(self, index: int) -> None:
        shard = self._shards.pop(index, None)
        if shard is not None:
            if shard.phase is Phase.ACTIVE:
                self._trace_shard(shard, "coordinator_unloaded")
            shard.close()

    def _reload(self, shard: HostedShard[Any]) -> None:
        """Loads a shard again whose state no longer matches its log."""
        if self._shards.get(shard.partition.index) is shard:
            self._unload(shard.partition.index)
            if not shard.is_fenced:
                self._start_loading(shard.partition)

    async def _load(self, shard: HostedShard[S]) -> None:
        loader = ShardLoader(shard, self.settings.load_buffer_bytes, self.settings.is_compacted)
        began = trio.current_time()
        try:
            await loader.run()
            shard.begin()
        except LoadingAborted:
            return  # the shard is closed, or is about to be
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - loading would fail on the next broker too
            self._trace_shard(
                shard,
                "coordinator_load_failed",
                path=None if shard.partition.log is None else shard.partition.log.directory,
                error=f"{type(error).__name__}: {error}",
                traceback="".join(format_exception(error)),
            )
            shard.close()  # until the leader epoch changes
            return
        elapsed_ms = (trio.current_time() - began) * 1000
        self._trace_shard(
            shard, "coordinator_loaded", records=loader.records, size_bytes=loader.size_bytes, elapsed_ms=elapsed_ms
        )
        for listener in self._loaded_listeners:
            listener(shard.partition.index)

    def _trace_shard(self, shard: HostedShard[Any], kind: str, **fields: object) -> None:
        self._trace(kind, topic=self.settings.topic, partition=shard.partition.index, epoch=shard.epoch, **fields)
