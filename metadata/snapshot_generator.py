"""Takes snapshots of the metadata image, so that the log below them can be removed (KIP-630)."""

from collections.abc import Iterator, Sequence
from math import inf

import trio

from kraft.replicated_log import Batch, Leadership, ReplicatedLog
from metadata.image import MetadataLoader, image_records
from metadata.records import encode_record


class SnapshotGenerator:
    """A listener of `log`, to be registered after `loader`, whose image it stores.

    A snapshot is due after `max_bytes` of records (metadata.log.max.record.bytes.between.snapshots), or
    `max_interval_ms` after the one before, if there are new records (metadata.log.max.snapshot.interval.ms; 0 disables
    it). Every node takes its own snapshots. Images are immutable, so commits continue while a snapshot is written.
    """

    def __init__(self, log: ReplicatedLog, loader: MetadataLoader, max_bytes: int, max_interval_ms: int) -> None:
        self._log = log
        self._loader = loader
        self._max_bytes = max_bytes
        self._max_interval_s = max_interval_ms / 1000 or inf
        self._new_bytes = 0
        self._last_s = 0.0
        self._changed = trio.Event()
        self._is_requested = False
        self._taken = trio.Event()

    async def take_now(self) -> None:
        """Take a snapshot of the latest image, whether or not one is due. `run` must run."""
        self._is_requested, taken = True, self._taken
        self._notify()
        await taken.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take snapshots until cancelled.

        Raises OSError, FsyncFailed. A disk that fails to store a snapshot would fail for the log, too.
        """
        self._last_s = trio.current_time()
        task_status.started()
        while True:
            await self._wait_until_due()
            image = self._loader.image
            self._restart_interval()
            self._is_requested, taken, self._taken = False, self._taken, trio.Event()
            await self._log.take_snapshot(image.offset + 1, map(encode_record, image_records(image)))
            taken.set()

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Count the bytes. The task is woken only by the first commit after a snapshot, and when a snapshot is due."""
        before = self._new_bytes
        self._new_bytes += sum(len(record) for batch in batches for record in batch.records)
        if before == 0 or self._new_bytes >= self._max_bytes:
            self._notify()

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """A snapshot was loaded at the start, or fetched from the leader: count from there."""
        self._restart_interval()
        self._notify()

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Ignored: every node takes snapshots, whether it leads or not."""

    async def _wait_until_due(self) -> None:
        while self._new_bytes < self._max_bytes and not self._is_requested:
            deadline = self._last_s + self._max_interval_s if self._new_bytes else inf
            if deadline <= trio.current_time():
                return
            with trio.move_on_at(deadline):
                await self._changed.wait()

    def _restart_interval(self) -> None:
        self._new_bytes = 0
        self._last_s = trio.current_time()

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
