"""The leader epochs of a partition's log, and the offset at which each begins.

Replicas use them to find where their logs diverge (KIP-101, KIP-279): an epoch has one leader, so records of the same
epoch and offset are the same on all replicas. The file `leader-epoch-checkpoint` has Kafka's text format: a line with
the version 0, one with the number of entries, and a line "epoch startOffset" per entry.

`assign` and the truncations only change memory and set `dirty`. `flush` writes the file durably, and must be called
before the recovery point moves. After a crash every batch from the recovery point on is read again and its epoch
assigned again: this adds entries that the file lacks and overrules entries that should be gone. The old file must only
be replaced by a durable one: otherwise a power cut could leave it empty. If the file is unreadable, the log is
recovered from its start.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial

import trio

from broker.storage.checkpoints import (
    LINE_SHOWN,
    OFFSET_MAX,
    CorruptCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
    number_up_to,
)
from broker.storage.whole_file import (
    TEMPORARY_SUFFIX,
    read_whole,
    read_whole_from_device,
    replace_durably,
    try_to_read,
    write_whole,
)
from kraft.env import Disk

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

UNDEFINED_EPOCH = -1
EPOCH_MAX = 2**31 - 1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochCache:
    """The epochs of one log, ascending, with strictly ascending start offsets."""

    __slots__ = ("_disk", "_epochs", "_starts", "_writing", "directory", "dirty", "is_closed")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory  # can be set, as a deleted partition's directory is renamed
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.dirty = False  # memory is ahead of the file
        self.is_closed = False
        self._writing: trio.Lock | None = None  # created on first use: most logs are never written again

    @classmethod
    def load(cls, disk: Disk, directory: str) -> "LeaderEpochCache":
        """Read the file; without a file there are no epochs. Raises CorruptCheckpoint, OSError."""
        cache = cls(disk, directory)
        try:
            content = read_whole(disk, cache.path)
        except FileNotFoundError:
            return cache
        for line in decode_checkpoint(content, cache.path):
            try:
                epoch, start_offset = line.split()
                cache.assign(number_up_to(EPOCH_MAX, epoch), number_up_to(OFFSET_MAX, start_offset))
            except ValueError as error:
                raise CorruptCheckpoint(
                    f"Malformed line in checkpoint file [{cache.path}]: {line[:LINE_SHOWN]}"
                ) from error
        cache.dirty = False
        return cache

    @property
    def path(self) -> str:
        return f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, or -1."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`; does nothing if it is the latest and begins there or earlier.

        Entries that contradict it (later or equal epochs, later or equal start offsets) are dropped.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"Received invalid partition leader epoch entry ({epoch}, {start_offset})")
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.dirty = True

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 before the first entry."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else UNDEFINED_EPOCH

    def previous_epoch(self, epoch: int) -> int:
        """The newest epoch before `epoch`, or -1."""
        index = bisect_left(self._epochs, epoch)
        return self._epochs[index - 1] if index else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch: the latest epoch that is not after `epoch`, and its end.

        The latest epoch ends at the log end. An epoch before the first entry ends where that entry begins, as its
        records were deleted. An epoch after the latest is unknown: (-1, -1).
        """
        if epoch != UNDEFINED_EPOCH and epoch == self.latest_epoch:
            return epoch, log_end_offset
        index = bisect_right(self._epochs, epoch)
        if epoch == UNDEFINED_EPOCH or index == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        return (self._epochs[index - 1] if index else epoch), self._starts[index]

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: drop the epochs that begin there or later."""
        while self._starts and self._starts[-1] >= end_offset >= 0:
            self._epochs.pop()
            self._starts.pop()
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: its epoch begins there, and earlier epochs are dropped."""
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:index]
        del self._starts[:index]
        self._starts[0] = start_offset
        self.dirty = True

    def correct(self, true: Sequence[tuple[int, int]], first_offset: int, end_offset: int) -> None:
        """Replace what is known of the offsets from `first_offset` to `end_offset` by these epochs and their starts.

        The starts of `true` ascend, and are all between the two offsets.
        """
        at_end = self.epoch_for_offset(end_offset)
        before = [entry for entry in self.entries if entry[1] < first_offset]
        after = [entry for entry in self.entries if entry[1] >= end_offset]
        if not after or after[0][1] > end_offset:
            after.insert(0, (at_end, end_offset))
        self._epochs, self._starts = [], []
        for epoch, start in (*before, *true, *after):
            if epoch > self.latest_epoch:
                self._epochs.append(epoch)
                self._starts.append(start)
        self.dirty = True

    async def restore_file(self) -> str:
        """Write the file again if it is not what was written last; returns what was wrong, "" if nothing was.

        Writes nothing once the cache is closed. Raises OSError, FsyncFailed.
        """
        if self._writing is None:
            self._writing = trio.Lock()
        is_stale, problem = self.dirty, ""
        if not is_stale:
            async with self._writing:
                path = self.path
                content, error = await self._disk.run_apart(
                    partial(try_to_read, self._disk, path, read_whole_from_device)
                )
                has_changed = self.is_closed or self.dirty or self.path != path
                if has_changed or content == self._encode() or not (content or self._epochs or error):
                    return ""
                problem = error or "it does not have the leader epochs of the log"
                is_stale, self.dirty = self.dirty, True
        await self.flush()
        return "" if is_stale else problem

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.dirty = True

    def close(self) -> None:
        """Begin no more writes: the directory may be that of another log of the partition from now on."""
        self.is_closed = True

    async def flush(self) -> None:
        """Write the file durably if it differs from memory, unless the cache is closed. Raises OSError, FsyncFailed."""
        if not self.dirty and self._writing is None:
            return
        if self._writing is None:
            self._writing = trio.Lock()
        async with self._writing:
            while self.dirty and not self.is_closed:
                self.dirty = False
                try:
                    await replace_durably(self._disk, self.path, self._encode())
                except BaseException:
                    self.dirty = True
                    raise

    def write_beside(self) -> list[str]:
        """Write a new file beside the old one if needed; returns its path, which is to be synced before `replace`.

        This is `flush` in parts, for a caller that writes many files. Raises OSError.
        """
        if not self.dirty:
            return []
        temporary = self.path + TEMPORARY_SUFFIX
        write_whole(self._disk, temporary, self._encode())
        return [temporary]

    def replace(self) -> bool:
        """Replace the old file by the one of `write_beside`; durable once the directory is synced.

        Returns whether there was a new file. Raises OSError.
        """
        if not self.dirty:
            return False
        self._disk.rename(self.path + TEMPORARY_SUFFIX, self.path)
        self.dirty = False
        return True

    def _encode(self) -> bytes:
        return encode_checkpoint([f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)])
