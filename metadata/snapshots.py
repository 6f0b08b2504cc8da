"""Takes snapshots of the metadata, so that the log before them can go (KIP-630)."""

from collections.abc import Iterator, Sequence
from math import inf

import trio

from kraft.replicated_log import Batch, Leadership, ReplicatedLog
from metadata.image import Loader, image_records
from metadata.records import encode_record


class SnapshotTaker:
    """A listener of `log`, to be registered after `loader`, whose image it keeps.

    A snapshot is due `max_bytes` of records after the one before (metadata.log.max.record.bytes.between.snapshots), or
    after `max_interval_ms` if there is anything new (metadata.log.max.snapshot.interval.ms; 0 for never by time). Every
    node takes its own. Images do not change, so records go on being committed while one is written down.
    """

    def __init__(self, log: ReplicatedLog, loader: Loader, max_bytes: int, max_interval_ms: int) -> None:
        self._log = log
        self._loader = loader
        self._max_bytes = max_bytes
        self._max_interval_s = max_interval_ms / 1000 or inf
        self._new_bytes = 0
        self._last_s = 0.0
        self._changed = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take snapshots until cancelled.

        Raises OSError, FsyncFailed: a disk that does not take a snapshot will not take the log's next entry either.
        """
        self._last_s = trio.current_time()
        task_status.started()
        while True:
            await self._due()
            image = self._loader.image
            self._begin_anew()
            await self._log.take_snapshot(image.offset + 1, map(encode_record, image_records(image)))

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Wakes the task only where there is something for it to reconsider, not for each commit."""
        before = self._new_bytes
        self._new_bytes += sum(len(record) for batch in batches for record in batch.records)
        if before == 0 or self._new_bytes >= self._max_bytes:
            self._reconsider()

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """One came from the leader, or was there at the start: the next is due when there is as much again."""
        self._begin_anew()
        self._reconsider()

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Snapshots do not care who leads."""

    async def _due(self) -> None:
        while self._new_bytes < self._max_bytes:
            deadline = self._last_s + self._max_interval_s if self._new_bytes else inf
            if deadline <= trio.current_time():
                return
            with trio.move_on_at(deadline):
                await self._changed.wait()

    def _begin_anew(self) -> None:
        self._new_bytes = 0
        self._last_s = trio.current_time()

    def _reconsider(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
