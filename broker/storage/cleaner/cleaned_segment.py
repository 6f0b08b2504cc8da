"""The file that replaces some segments, while it is written next to them with the suffix `.cleaned`."""

import trio

from broker.storage.log_config import LogConfig
from broker.storage.offset_index import OffsetIndex
from broker.storage.swapping import cleaned_paths
from broker.storage.time_index import TimeIndex
from broker.storage.transaction_index import AbortedTransaction, TransactionIndex
from broker.wire.records import NO_TIMESTAMP, BatchHeader, read_header
from kraft.env import Disk

# The largest position that an index entry can hold.
_POSITION_MAX = 2**31 - 1


class CleanedSegment:
    """The retained batches of the replaced segments, of which the first begins at `base_offset`."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> None:
        """Create the files. Raises OSError."""
        self._disk = disk
        self._paths = cleaned_paths(directory, base_offset)
        self._index_interval_bytes = config.index_interval_bytes
        self._offset_index = OffsetIndex(disk, self._paths[1], base_offset)
        self._time_index = TimeIndex(disk, self._paths[2], base_offset)
        self._offset_index.reset()
        self._time_index.reset()
        self._file = disk.open(self._paths[0], create=True)
        self._file.truncate(0)
        self._staged: list[memoryview] = []
        self._written = 0
        self._unindexed_bytes = 0
        self._latest = (NO_TIMESTAMP, base_offset)
        self._transaction_index = TransactionIndex(disk, self._paths[3])
        self._transaction_index.replace([])
        self.size_bytes = 0

    def append(self, batch: memoryview) -> None:
        """Add a batch, which the next `write` writes."""
        header = read_header(batch)
        self._index(header)
        self._staged.append(batch)
        self.size_bytes += header.size

    def _index(self, header: BatchHeader) -> None:
        if header.max_timestamp > self._latest[0]:
            self._latest = (header.max_timestamp, header.last_offset)
        unindexed = self._unindexed_bytes
        self._unindexed_bytes = unindexed + header.size
        if unindexed > self._index_interval_bytes and self.size_bytes <= _POSITION_MAX:
            self._offset_index.append(header.last_offset, self.size_bytes)
            self._time_index.maybe_append(*self._latest)
            self._unindexed_bytes = header.size

    def write(self) -> int:
        """Write the added batches; returns their size in bytes. Raises OSError."""
        if self._staged:
            self._file.write(self._written, self._staged)
            self._staged.clear()
        written = self.size_bytes - self._written
        self._written = self.size_bytes
        return written

    async def finish(
        self, aborted: list[AbortedTransaction], retained_from_ms: int, *, is_index_lost: bool = False
    ) -> None:
        """Make the files durable, so that they can replace the segments. Raises OSError, FsyncFailed.

        `aborted` are the aborted transactions that ended in those segments, and of which batches are left. Without a
        record that has a timestamp, retention counts from `retained_from_ms`. `is_index_lost` says that the aborted
        transactions are not known: readers refuse the transaction index then, until it is made again.
        """
        self.write()
        self._file.set_modified(retained_from_ms)
        if is_index_lost:
            self._transaction_index.replace_by_damage()
        elif aborted:
            self._transaction_index.replace(aborted)
        if aborted or is_index_lost:
            await self._transaction_index.sync()
        if self.size_bytes:
            self._time_index.maybe_append(*self._latest)
        await self._file.sync()
        await self._offset_index.sync()
        await self._time_index.sync()
        self._file.close()

    async def discard(self) -> None:
        """Remove the files, even if the task is cancelled. Raises OSError.

        A restart would discard them too, but also the later segments that a later compaction has partly swapped in.
        """
        self._file.close()
        with trio.CancelScope(shield=True):
            for path in self._paths:
                if self._disk.exists(path):
                    await self._disk.remove(path)
