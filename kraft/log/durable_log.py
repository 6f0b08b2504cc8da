"""The log in one append-only file. Batches that `open` returns, or that were synced, survive a power cut."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from kraft.env import Disk, File
from kraft.log.frame import MAGIC, Frame, decode_frame, encode_frame
from kraft.replicated_log import Batch

_SUFFIX = ".log"
_NAME: Final = re.compile(r"([0-9]{20})\.log")
_OFFSET_MAX: Final = 2**63 - 1


class CorruptLog(Exception):
    """Durable entries can no longer be read. An operator has to repair the node, or restore it from other replicas."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}. Remove the directory of this metadata log and have its node formatted again; a "
            "voter has to be removed and added then. If no other controller has the metadata, restore it from a backup"
        )


class DurableLog:
    """The open log file, which is named after its start offset. `end_offset` is the offset of the next record.

    `epoch` is the epoch of the last batch, or `start_epoch` for an empty log. The caller sets `start_epoch` to the
    epoch of the snapshot at the log's start.
    """

    def __init__(self, disk: Disk, directory: str, file: File, start_offset: int) -> None:
        self._disk = disk
        self._directory = directory
        self._file = file
        self.start_offset = start_offset
        self.start_epoch = 0
        self._size = self._durable_size = 0
        self._positions: list[int] = []
        self._base_offsets: list[int] = []
        self._epochs: list[int] = []
        # The last batch written, which the state machines and the followers read next.
        self._last: Batch | None = None
        self.end_offset = start_offset
        self.torn_bytes = 0  # cut off the end by `open`; 0 if all of these bytes were zeros

    @property
    def epoch(self) -> int:
        return self._epochs[-1] if self._epochs else self.start_epoch

    @property
    def path(self) -> str:
        return self._file.path

    @classmethod
    async def open(cls, disk: Disk, directory: str) -> "tuple[DurableLog, list[Batch]]":
        """Recover the log in `directory`, which is created if missing, and return it with all of its batches.

        A torn tail is cut off. The rest is written and synced again before it is used, see `_rewrite`.

        Raises CorruptLog if entries below the tail are damaged.
        """
        disk.make_dir(directory)
        await disk.sync_dir(directory.rpartition("/")[0] or "/")
        start_offset = await _latest_start(disk, directory)
        file = disk.open(_path(directory, start_offset), create=True)
        data = file.read(0, file.size())
        frames = list(_intact_frames(memoryview(data), start_offset))
        size = frames[-1].end if frames else 0
        _refuse_damage_below_the_tail(file.path, data, size)
        _rewrite(file, memoryview(data)[:size])
        file.truncate(size)
        await file.sync()
        await disk.sync_dir(directory)
        log = cls(disk, directory, file, start_offset)
        log.torn_bytes = len(data) - size if any(data[size:]) else 0
        for frame in frames:
            log._note(frame.batch, frame.end)
        log._durable_size = size
        return log, [frame.batch for frame in frames]

    def write(self, batch: Batch) -> None:
        """Append `batch`; it is durable after `sync`. Raises OSError, after which the log must not be used."""
        assert batch.records, "a batch holds at least one record"
        assert batch.base_offset == self.end_offset, f"batch at {batch.base_offset}, the log ends at {self.end_offset}"
        assert batch.epoch >= self.epoch, f"batch of epoch {batch.epoch} after one of {self.epoch}"
        frame = encode_frame(batch, self._durable_size)
        self._file.write(self._size, [frame])
        self._note(batch, self._size + len(frame))
        self._last = batch

    def read(self, offset: int, end_offset: int, max_bytes: int) -> tuple[Batch, ...]:
        """Return the batches from the one that starts at `offset` on, below `end_offset`.

        Returns at most `max_bytes` of the file, but at least one batch if there is one.
        """
        first = bisect_left(self._base_offsets, offset)
        end = bisect_left(self._base_offsets, end_offset)
        if first >= end:
            return ()
        if self._last is not None and first == len(self._positions) - 1:
            return (self._last,)
        start = self._positions[first]
        limit = start + max_bytes
        fitting = len(self._positions) if limit >= self._size else bisect_right(self._positions, limit) - 1
        stop = self._position(min(max(first + 1, fitting), end))
        data = memoryview(self._file.read(start, stop - start))
        batches, position = [], 0
        while position < len(data):
            frame = decode_frame(data, position)
            if frame is None:
                raise CorruptLog(f"{self._file.path} is damaged at byte {start + position}")
            batches.append(frame.batch)
            position = frame.end
        return tuple(batches)

    async def truncate(self, end_offset: int) -> None:
        """Remove the batches from `end_offset` on, durably. Must not be called during a sync. Raises FsyncFailed.

        The truncation is synced at once. Otherwise a power cut could bring removed bytes back after, or between, the
        bytes that are written next.
        """
        kept = bisect_left(self._base_offsets, end_offset)
        size = self._position(kept)
        assert kept == 0 or end_offset in (*self._base_offsets[kept : kept + 1], self.end_offset), (
            "a truncation within a batch"
        )
        del self._positions[kept:], self._base_offsets[kept:], self._epochs[kept:]
        self._last = None
        self._size, self._durable_size = size, min(size, self._durable_size)
        self.end_offset = min(end_offset, self.end_offset)
        self._file.truncate(size)
        await self.sync()

    async def sync(self) -> None:
        """Make everything written before the call durable. Raises FsyncFailed, which ends the process."""
        size = self._size
        await self._file.sync()
        self._durable_size = size

    async def start_at(self, offset: int, epoch: int, *, keep: bool) -> None:
        """Start the log at `offset`, after a batch of `epoch`: a durable snapshot holds the entries below.

        With `keep`, the batches from `offset` on are kept. They are copied to another file, which replaces this one
        once it is durable. The copy is small, as these are the batches since the snapshot was started. Must not be
        called during a sync.
        """
        if keep and offset == self.start_offset:
            return
        first = bisect_left(self._base_offsets, offset) if keep else len(self._positions)
        assert not keep or offset in (*self._base_offsets[first : first + 1], self.end_offset), (
            "a truncation within a batch"
        )
        position = self._position(first)
        kept = self._file.read(position, self._size - position)
        path = _path(self._directory, offset)
        file = self._disk.open(path + ".part", create=True)
        file.truncate(0)
        file.write(0, [kept])
        await file.sync()
        self._disk.rename(path + ".part", path)
        await self._disk.sync_dir(self._directory)
        former, former_start = self._file, self.start_offset
        # Without a checkpoint in between: state machines may read during any wait.
        self._file = file
        self._last = self._last if keep else None
        self._positions = [each - position for each in self._positions[first:]]
        self._base_offsets, self._epochs = self._base_offsets[first:], self._epochs[first:]
        self._size = self._durable_size = len(kept)
        self.start_offset, self.start_epoch = offset, epoch
        self.end_offset = max(self.end_offset, offset) if keep else offset
        former.close()
        if offset != former_start:
            await self._disk.remove(_path(self._directory, former_start))

    def close(self) -> None:
        self._file.close()

    def _note(self, batch: Batch, end_position: int) -> None:
        self._positions.append(self._size)
        self._base_offsets.append(batch.base_offset)
        self._epochs.append(batch.epoch)
        self._size = end_position
        self.end_offset = batch.last_offset + 1

    def _position(self, index: int) -> int:
        return self._positions[index] if index < len(self._positions) else self._size


def _path(directory: str, start_offset: int) -> str:
    return f"{directory}/{start_offset:020}{_SUFFIX}"


def is_log(name: str) -> bool:
    """True if `name` is the name of a log file."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[1]) <= _OFFSET_MAX


async def _latest_start(disk: Disk, directory: str) -> int:
    """Return the log's start offset, and remove files that a crash left: unfinished ones and replaced ones."""
    names = disk.list(directory)
    starts = [int(name.removesuffix(_SUFFIX)) for name in names if is_log(name)]
    latest = max(starts, default=0)
    superfluous = [name for name in names if name.endswith(_SUFFIX + ".part")]
    for path in [f"{directory}/{name}" for name in superfluous] + [_path(directory, each) for each in starts]:
        if path != _path(directory, latest):
            await disk.remove(path)
    return latest


def _intact_frames(data: memoryview, start_offset: int) -> Iterator[Frame]:
    position, offset, epoch = 0, start_offset, 0
    while (frame := decode_frame(data, position)) is not None:
        batch = frame.batch
        if batch.base_offset != offset or batch.epoch < epoch:
            return
        yield frame
        position, offset, epoch = frame.end, batch.last_offset + 1, batch.epoch


def _rewrite(file: File, intact: memoryview) -> None:
    """Write the bytes that recovery has read, so that the next sync makes them durable.

    After an fsync that failed in the previous process, the page cache may hold data that is not on the disk
    (https://lwn.net/Articles/752063/).
    """
    file.write(0, [intact])


def _refuse_damage_below_the_tail(path: str, data: bytes, intact_size: int) -> None:
    """Raises CorruptLog if a frame after the damage records that the damaged bytes were durable."""
    view = memoryview(data)
    position = data.find(MAGIC, intact_size)
    while position >= 0:
        frame = decode_frame(view, position)
        if frame is not None and frame.durable_size > intact_size:
            raise CorruptLog(f"{path} is damaged at byte {intact_size}, below entries that are intact")
        position = data.find(MAGIC, position + 1)
