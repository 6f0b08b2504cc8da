"""Compares the files of a running replica with what it knows of them, to find bits that have flipped on the disk.

`quorum-state` and `durable-end` are in memory, and are written again. Entries of the log and a snapshot are not: a new
snapshot replaces both, because the state machine has applied all committed entries.
"""

from functools import partial
from typing import Final

import trio

from kraft import lazy_attrs
from kraft.core import OffsetAndEpoch
from kraft.env import Disk, File, lacks_resources
from kraft.log.durable_log import DurableLog, ExpectedFrame
from kraft.log.frame import decode_frame
from kraft.log.quorum_state_file import QuorumStateFile
from kraft.log.snapshots import Snapshots

# Bytes of the log that one call of a thread reads, which takes a few milliseconds.
_PIECE_BYTES: Final = 128 * 1024


@lazy_attrs.frozen
class DamagedFile:
    """A file that is not as the replica has written it; `problem` says why.

    `replaced_by` is the least end offset of a snapshot that replaces what is damaged.
    """

    path: str
    problem: str
    replaced_by: int = 0


class ReplicaFiles:
    """The files of a replica that is open.

    A reader that meets damage calls `suspect`, so that it is repaired soon by a task that uses `wait_suspected`.
    """

    def __init__(self, disk: Disk, log: DurableLog, snapshots: Snapshots, election: QuorumStateFile) -> None:
        self._disk = disk
        self._log = log
        self._snapshots = snapshots
        self._election = election
        self.bytes_read = 0
        self._suspected = trio.Event()

    def suspect(self) -> bool:
        """Ask for a check of the files; returns False if one is asked for already."""
        if self.is_suspected:
            return False
        self._suspected.set()
        return True

    @property
    def is_suspected(self) -> bool:
        return self._suspected.is_set()

    async def wait_suspected(self) -> None:
        """Wait until a check is asked for."""
        await self._suspected.wait()

    def clear_suspicion(self) -> None:
        """Say that the check that was asked for is done."""
        self._suspected = trio.Event()

    async def restore(self) -> list[DamagedFile]:
        """Write the small files again if they are damaged, and return those. Raises OSError, FsyncFailed."""
        restored = []
        for path, slots in (self._election.slots_with_path, self._log.durable_end_slots):
            if slots.is_damaged():
                await slots.restore()
                restored.append(DamagedFile(path, "a copy of its value is damaged"))
        return restored

    async def find_damage(self) -> list[DamagedFile]:
        """Read the log and the latest snapshot, and return what is damaged. Raises OSError."""
        found = [await self._log_damage(), await self._snapshot_damage()]
        return [each for each in found if each is not None]

    async def _snapshot_damage(self) -> DamagedFile | None:
        snapshots, place = self._snapshots, self._snapshots.latest
        snapshots.is_damaged = False
        if place is None:
            return None
        try:
            problem = await self._disk.run_apart(partial(_snapshot_problem, snapshots, place))
            if not problem or snapshots.latest != place or not _snapshot_problem(snapshots, place):
                return None
        except FileNotFoundError:
            if snapshots.latest != place:
                return None
            problem = "it is missing"
        snapshots.is_damaged = True
        return DamagedFile(snapshots.path_of(place), problem, place.offset)

    async def _log_damage(self) -> DamagedFile | None:
        """The first damaged entry of the log. Entries that are not durable yet are left out."""
        log = self._log
        path, expected = log.path, log.durable_frames()
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return DamagedFile(path, "it is missing", log.end_offset) if path == log.path else None
        try:
            first = 0
            while first < len(expected):
                end = first + 1
                while end < len(expected) and expected[end].end - expected[first].position <= _PIECE_BYTES:
                    end += 1
                frames = expected[first:end]
                self.bytes_read += frames[-1].end - frames[0].position
                damaged = await self._disk.run_apart(partial(_first_damaged, file, frames))
                if damaged is not None and log.path == path and log.has_frame(damaged):
                    again = _first_damaged(file, [damaged])
                    if again is not None:
                        problem = f"the entry at byte {damaged.position} is damaged"
                        return DamagedFile(path, problem, damaged.last.offset)
                first = end
        finally:
            file.close()
        return None


def _snapshot_problem(snapshots: Snapshots, place: OffsetAndEpoch) -> str:
    """The damage to a snapshot, as text; an error of the disk is damage, too. Raises FileNotFoundError, OSError."""
    try:
        return snapshots.damage_of(place)
    except OSError as error:
        if isinstance(error, FileNotFoundError) or lacks_resources(error):
            raise
        return str(error)


def _first_damaged(file: File, frames: list[ExpectedFrame]) -> ExpectedFrame | None:
    """The first of these consecutive frames that the file does not have, or that the disk cannot read.

    Raises OSError if no file can be read now.
    """
    start = frames[0].position
    try:
        data = memoryview(file.read_from_device(start, frames[-1].end - start))
    except OSError as error:
        if lacks_resources(error):
            raise
        damaged = (_first_damaged(file, [frame]) for frame in frames)
        return frames[0] if len(frames) == 1 else next((frame for frame in damaged if frame is not None), None)
    for frame in frames:
        found = decode_frame(data, frame.position - start)
        if (
            found is None
            or found.end != frame.end - start
            or found.batch.base_offset != frame.base_offset
            or OffsetAndEpoch(found.batch.last_offset + 1, found.batch.epoch) != frame.last
        ):
            return frame
    return None
