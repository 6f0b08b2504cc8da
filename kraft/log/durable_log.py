"""The log in one append-only file. Batches that `open` returns, or that were synced, survive a power cut."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from kraft import lazy_attrs
from kraft.core import OffsetAndEpoch, latest_end
from kraft.env import Disk, File
from kraft.log.durable_end_file import FILE_NAME as DURABLE_END
from kraft.log.durable_end_file import DurableEndFile
from kraft.log.frame import decode_frame, encode_frame
from kraft.log.log_content import read_content
from kraft.log.slots import SlotFile
from kraft.replicated_log import Batch

_SUFFIX = ".log"
_NAME: Final = re.compile(r"([0-9]{20})\.log")
_OFFSET_MAX: Final = 2**63 - 1
_BEGINNING: Final = OffsetAndEpoch(0, 0)


class CorruptLog(Exception):
    """Durable entries can no longer be read. An operator has to repair the node, or restore it from other replicas.

    `damage` says what is wrong with the files.
    """

    def __init__(self, damage: str) -> None:
        super().__init__(damage)
        self.damage = damage

    def __str__(self) -> str:
        return (
            f"{self.damage}. If no other controller has the metadata, restore this directory from a backup. Otherwise "
            "remove the directory of this metadata log and have its node formatted again; a voter has to be removed "
            "and added then"
        )


class EntriesLost(CorruptLog):
    """Entries are damaged or missing that were durable. `batches` are those before them, `lost_end` was the log's end.

    Other replicas may have the entries: see `DurableLog.open`.
    """

    def __init__(self, damage: str, batches: Sequence[Batch], lost_end: OffsetAndEpoch) -> None:
        super().__init__(damage)
        self.batches = batches
        self.lost_end = lost_end

    def __str__(self) -> str:
        return (
            f"{self.damage}. This node is the only controller that it knows, so no other has them: restore the "
            "directory from a backup. Without one, `kraft accept-loss`, with the node's --config and --override, lets "
            "the metadata end there for good; with --dry-run it says how much is lost"
        )


@lazy_attrs.frozen
class ExpectedFrame:
    """A frame from `position` to `end`; `base_offset` is that of its batch, `last` the batch's end and epoch."""

    position: int
    end: int
    base_offset: int
    last: OffsetAndEpoch


class DurableLog:
    """The open log file, which is named after its start offset. `end_offset` is the offset of the next record.

    `epoch` is the epoch of the last batch, or `start_epoch` for an empty log. The caller sets `start_epoch` to the
    epoch of the snapshot at the log's start.

    `durable_end` is the end of the entries that were durable, and may have been acknowledged. It is after the log's end
    while entries are missing that the disk has lost.
    """

    def __init__(
        self, disk: Disk, directory: str, file: File, start_offset: int, durable_end_file: DurableEndFile
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file = file
        self._durable_end_file = durable_end_file
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
        return _path(self._directory, self.start_offset)

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.epoch)

    @property
    def durable_end(self) -> OffsetAndEpoch:
        return self._durable_end_file.end

    @classmethod
    async def open(
        cls, disk: Disk, directory: str, snapshot: OffsetAndEpoch = _BEGINNING, *, cut: bool = False
    ) -> "tuple[DurableLog, list[Batch]]":
        """Recover the log in `directory`, which is created if missing, and return it with all of its batches.

        A torn tail is cut off. The rest is written and synced again before it is used, see `_rewrite`.

        Raises EntriesLost if entries are missing that were durable, and that `snapshot` does not cover. With `cut`, the
        log ends before the first of them instead, and `durable_end` after the last one.
        """
        disk.make_dir(directory)
        await disk.sync_dir(directory.rpartition("/")[0] or "/")
        start_offset = await _latest_start(disk, directory)
        file = disk.open(_path(directory, start_offset), create=True)
        durable_end_file = DurableEndFile(disk, directory)
        data = file.read(0, file.size())
        content = read_content(data, start_offset)
        size, batches = content.size, [frame.batch for frame in content.frames]
        durable_end = latest_end(durable_end_file.end, content.lost_end or _BEGINNING)
        if latest_end(content.end, snapshot).is_before(durable_end):
            if not cut:
                file.close()
                durable_end_file.close()
                raise EntriesLost(_describe_loss(file.path, data, size, durable_end), batches, durable_end)
            await durable_end_file.save(durable_end)  # before the cut, after which nothing else would tell of the loss
        _rewrite(file, memoryview(data)[:size])
        file.truncate(size)
        await file.sync()
        await disk.sync_dir(directory)
        log = cls(disk, directory, file, start_offset, durable_end_file)
        log.torn_bytes = len(data) - size if any(data[size:]) else 0
        for frame in content.frames:
            log._note(frame.batch, frame.end)
        log._durable_size = size
        if batches:
            log._note_durable(log.end)
        return log, batches

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

        Returns at most `max_bytes` of the file, but at least one batch if there is one. The batches end before a
        damaged one. Raises CorruptLog if the first one is damaged.
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
        batches: list[Batch] = []
        position = 0
        while position < len(data):
            frame = decode_frame(data, position)
            if frame is None and batches:
                break
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
        had_lost = self.end.is_before(self.durable_end)
        del self._positions[kept:], self._base_offsets[kept:], self._epochs[kept:]
        self._last = None
        self._size, self._durable_size = size, min(size, self._durable_size)
        self.end_offset = min(end_offset, self.end_offset)
        if not had_lost and self.end.is_before(self.durable_end):
            # Before the truncation: after a crash in between, the truncated entries must not count as lost.
            await self._durable_end_file.save(self.end)
        self._file.truncate(size)
        await self.sync()

    async def sync(self) -> None:
        """Make everything written before the call durable. Raises FsyncFailed, which ends the process; OSError."""
        size, end = self._size, self.end
        await self._file.sync()
        self._durable_size = size
        self._note_durable(end)

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
        self._note_durable(self.end)
        former.close()
        if offset != former_start:
            await self._disk.remove(_path(self._directory, former_start))

    async def accept_loss(self) -> None:
        """Let the log end where it ends: the entries up to `durable_end` are given up. Raises FsyncFailed, OSError."""
        await self._durable_end_file.save(self.end)

    async def restart(self, durable_end: OffsetAndEpoch) -> None:
        """Empty the log, which is to be fetched again from its beginning, as the snapshot at its start is lost.

        `durable_end` is the end of the entries that were durable. Raises FsyncFailed, OSError.
        """
        if self.durable_end.is_before(durable_end):
            await self._durable_end_file.save(durable_end)
        await self.start_at(0, 0, keep=False)

    @property
    def durable_end_slots(self) -> tuple[str, SlotFile]:
        """The path and the slots of the file that holds `durable_end`."""
        return f"{self._directory}/{DURABLE_END}", self._durable_end_file.slots

    def durable_frames(self) -> list[ExpectedFrame]:
        """The frames of the batches that are durable."""
        count = bisect_right(self._positions, self._durable_size)
        frames = [self._frame(index) for index in range(count)]
        return frames[:-1] if frames and frames[-1].end > self._durable_size else frames

    def has_frame(self, frame: ExpectedFrame) -> bool:
        """True if the frame is still part of the log."""
        index = bisect_left(self._positions, frame.position)
        return index < len(self._positions) and self._frame(index) == frame

    def _frame(self, index: int) -> ExpectedFrame:
        is_last = index + 1 == len(self._positions)
        end_offset = self.end_offset if is_last else self._base_offsets[index + 1]
        last = OffsetAndEpoch(end_offset, self._epochs[index])
        return ExpectedFrame(self._positions[index], self._position(index + 1), self._base_offsets[index], last)

    def close(self) -> None:
        self._file.close()
        self._durable_end_file.close()

    def _note_durable(self, end: OffsetAndEpoch) -> None:
        """Raise `durable_end` to `end`, which is durable. Raises OSError."""
        if self.durable_end.is_before(end):
            self._durable_end_file.note(end)

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


def _rewrite(file: File, intact: memoryview) -> None:
    """Write the bytes that recovery has read, so that the next sync makes them durable.

    After an fsync that failed in the previous process, the page cache may hold data that is not on the disk
    (https://lwn.net/Articles/752063/).
    """
    file.write(0, [intact])


def _describe_loss(path: str, data: bytes, size: int, lost_end: OffsetAndEpoch) -> str:
    what = f"is damaged at byte {size} of {len(data)}" if len(data) > size else f"ends at byte {size}"
    return f"{path} {what}, and all before offset {lost_end.offset} (epoch {lost_end.epoch}) was durable"
