"""One kind of coordinator on this broker: a shard for each partition of its topic that this broker leads.

Requests decide on a shard's state, their records are appended and replayed at once, and their answers leave when the
records are committed. A shard comes with leadership of its partition, by a replay of the log, and goes with it.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from traceback import format_exception
from typing import Any, Generic, TypeVar

import attrs
import trio

from broker.coordinator.runtime.completion import Completion, failed
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.hosted_shard import HostedShard, Phase, ShardSurroundings, not_coordinator
from broker.coordinator.runtime.java_hash import java_hash
from broker.coordinator.runtime.partition_writer import Appender
from broker.coordinator.runtime.shard import Shard, ShardContext
from broker.coordinator.runtime.shard_loader import Loading, LoadingEnded
from broker.net.deadlines import Deadlines
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.wire.records import Compression
from kraft.env import FsyncFailed, Tracer
from metadata.image import MetadataDelta, MetadataImage

S = TypeVar("S", bound=Shard)
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class RuntimeSettings:
    """`topic` is the internal topic, `partition_count` what it has, or will have once it is created.

    A response waits `write_timeout_ms` for its commit; `load_buffer_bytes` of a log are read at a time. For
    `append_linger_ms` see `Appender`.
    """

    topic: str
    partition_count: Callable[[], int]
    write_timeout_ms: int
    load_buffer_bytes: int
    compression: Compression
    append_linger_ms: int


class Runtime(Generic[S]):
    """See the module's docstring. `led` and `publish` have to hear of partitions and metadata; `run` loads shards."""

    def __init__(
        self,
        settings: RuntimeSettings,
        make_state: Callable[[ShardContext], S],
        *,
        partitions: Partitions,
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
        self._wanted = trio.Event()
        self._arrival = trio.Event()
        self._surroundings = ShardSurroundings(
            appender=Appender(partitions, deadlines, settings.compression, settings.append_linger_ms),
            deadlines=deadlines,
            write_timeout_ms=settings.write_timeout_ms,
            now_ms=now_ms,
            image=image,
            trace=trace,
            reload=self._reload,
        )

    # Asking

    def partition_for(self, key: str) -> int:
        """The partition that a group or a transactional id belongs to."""
        return java_hash(key) % self.settings.partition_count()

    def write(self, partition: int, decide: Callable[[S, int], Decision[T]]) -> Completion[T]:
        """Have `decide` decide on the partition's state, at a time of day in ms; complete when that is committed.

        `decide` changes nothing, and may raise CoordinatorError, which is the answer then. Other errors are
        COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, and COORDINATOR_NOT_AVAILABLE where nothing can be committed.
        """
        shard = self._shards.get(partition)
        return failed(not_coordinator()) if shard is None else shard.write(decide)

    def read(self, partition: int, ask: Callable[[S, int], T]) -> Completion[T]:
        """Complete with what `ask` finds, when all that the state rests on is committed; otherwise as `write`."""
        shard = self._shards.get(partition)
        return failed(not_coordinator()) if shard is None else shard.read(ask)

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
        """How far the partition's shard is; GONE where there is none."""
        shard = self._shards.get(partition)
        return Phase.GONE if shard is None else shard.phase

    def coordinates(self, partition: int) -> bool:
        """Whether the partition's shard is here, or being loaded."""
        return partition in self._shards

    async def until_coordinates(self, partitions: Collection[int], timeout_s: float) -> None:
        """Wait until this is so for all of them, or for the time to be over."""
        with trio.move_on_after(timeout_s):
            while not all(map(self.coordinates, partitions)):
                await self._arrival.wait()

    @property
    def led_partitions(self) -> list[int]:
        """Those whose shards are here, loading ones among them."""
        return sorted(self._shards)

    # Coming and going

    def led(self, partitions: Sequence[Partition]) -> None:
        """These partitions are led by this broker under another epoch now, or no more. Must not fail."""
        for partition in partitions:
            if partition.topic == self.settings.topic:
                shard = self._shards.get(partition.index)
                if shard is None or shard.partition is partition or partition.leads:  # else a former topic's
                    self._let_go(partition.index)
                    if partition.leads:
                        self._host(partition)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The metadata is another one. To be called behind those who call `led`."""
        for shard in list(self._shards.values()):
            shard.metadata_changed(delta, image)

    async def run(self) -> None:
        """Load shards as they come, one after the other, until cancelled."""
        while True:
            while self._to_load:
                shard = self._to_load.popleft()
                if shard.phase is Phase.LOADING:
                    await self._load(shard)
            self._wanted = trio.Event()
            await self._wanted.wait()

    def _host(self, partition: Partition) -> None:
        shard = HostedShard(partition, self._make_state, self._surroundings)
        self._shards[partition.index] = shard
        self._to_load.append(shard)
        self._wanted.set()
        self._arrival.set()
        self._arrival = trio.Event()

    def _let_go(self, index: int) -> None:
        shard = self._shards.pop(index, None)
        if shard is not None:
            if shard.phase is Phase.ACTIVE:
                self._tell(shard, "coordinator_unloaded")
            shard.go()

    def _reload(self, shard: HostedShard[Any]) -> None:
        """The shard does not go with its log any more."""
        if self._shards.get(shard.partition.index) is shard:
            self._let_go(shard.partition.index)
            if not shard.is_fenced:
                self._host(shard.partition)

    async def _load(self, shard: HostedShard[S]) -> None:
        loading = Loading(shard, self.settings.load_buffer_bytes)
        began = trio.current_time()
        try:
            await loading.run()
            shard.begin()
        except LoadingEnded:
            return  # it has been let go, or is about to be
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it would be so on the next broker too
            self._tell(
                shard,
                "coordinator_load_failed",
                path=None if shard.partition.log is None else shard.partition.log.directory,
                error=f"{type(error).__name__}: {error}",
                traceback="".join(format_exception(error)),
            )
            shard.go()  # until somebody leads under another epoch
            return
        elapsed_ms = (trio.current_time() - began) * 1000
        self._tell(
            shard, "coordinator_loaded", records=loading.records, size_bytes=loading.size_bytes, elapsed_ms=elapsed_ms
        )

    def _tell(self, shard: HostedShard[Any], kind: str, **fields: object) -> None:
        self._trace(kind, topic=self.settings.topic, partition=shard.partition.index, epoch=shard.epoch, **fields)
