"""Which leader wrote which part of a partition's log: the leader epochs and where each begins.

Replicas find out with it where their logs part (KIP-101, KIP-279): an epoch has one leader, so records of one epoch at
one offset are the same records everywhere. The file `leader-epoch-checkpoint` is in Kafka's text format: a line with
the version 0, one with the number of entries, and a line "epoch startOffset" for each.

What is durable when: `assign` and the truncations change memory only and set `dirty`. `flush` writes the file durably
and has to come before the recovery point moves: behind the recovery point every batch is read again after a crash, and
its epoch assigned again, so an entry that the file lacks is found in the log, and one that should have gone is
overruled. Nothing less than a durable file may take the place of the old one: after a power cut it could be empty. A
file that cannot be read means that the log is to be recovered from its start.
"""

from bisect import bisect_left, bisect_right

import trio

from broker.storage.checkpoints import (
    LINE_SHOWN,
    OFFSET_MAX,
    CorruptCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
    number_up_to,
)
from broker.storage.whole_file import TEMPORARY_SUFFIX, read_whole, replace_durably, write_whole
from kraft.env import Disk

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

UNDEFINED_EPOCH = -1
EPOCH_MAX = 2**31 - 1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochCache:
    """The epochs of one log, ascending, with strictly ascending start offsets."""

    __slots__ = ("_disk", "_epochs", "_starts", "_writing", "directory", "dirty")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory  # settable: a deleted partition's directory is renamed
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.dirty = False  # memory is ahead of the file
        self._writing: trio.Lock | None = None  # none until it is needed: most logs are never written to again

    @classmethod
    def load(cls, disk: Disk, directory: str) -> "LeaderEpochCache":
        """Read the file; no file, no epochs. Raises CorruptCheckpoint, OSError."""
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
        """`epoch` begins at `start_offset`; does nothing if it is the newest and began there or earlier.

        Entries that contradict it (newer or equal epochs, equal or later starts) are dropped: the log says so.
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
        """(epoch, end offset) as OffsetForLeaderEpoch answers: of the newest epoch not after the requested one.

        The newest epoch ends where the log ends. Before the first entry, the requested epoch ends where that begins
        (the records are gone). An epoch newer than all is unknown here: (-1, -1).
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
        """The log now begins at `start_offset`: the epoch that wrote it begins there, the ones before are dropped."""
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:index]
        del self._starts[:index]
        self._starts[0] = start_offset
        self.dirty = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.dirty = True

    async def flush(self) -> None:
        """Bring the file in line with memory, durably. Raises OSError, FsyncFailed."""
        if not self.dirty and self._writing is None:
            return
        if self._writing is None:
            self._writing = trio.Lock()
        async with self._writing:
            while self.dirty:
                self.dirty = False
                try:
                    await replace_durably(self._disk, self.path, self._encode())
                except BaseException:
                    self.dirty = True
                    raise

    def write_beside(self) -> list[str]:
        """Write the file beside its place, if it is behind memory; its path, to be synced before `replace`.

        As `flush` in parts, for whoever has many of them written. Raises OSError.
        """
        if not self.dirty:
            return []
        temporary = self.path + TEMPORARY_SUFFIX
        write_whole(self._disk, temporary, self._encode())
        return [temporary]

    def replace(self) -> bool:
        """Put what `write_beside` wrote in its place, if it wrote anything: durable once the directory is synced.

        Raises OSError.
        """
        if not self.dirty:
            return False
        self._disk.rename(self.path + TEMPORARY_SUFFIX, self.path)
        self.dirty = False
        return True

    def _encode(self) -> bytes:
        return encode_checkpoint([f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)])
