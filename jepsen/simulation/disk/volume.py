"""A machine's disk: the page cache, the data that survives a power cut, and the faults of the device.

The model promises what POSIX promises and nothing more: a file's bytes are durable after its fsync, and a directory's
entries after the directory's fsync. Until then, a power cut keeps any part of them. Real file systems often promise
more.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NoReturn, TypeAlias

import attrs
import trio

from jepsen.simulation.clock import WALL_EPOCH_S, VirtualClock
from jepsen.simulation.disk.tree import Directory, Inode, Node
from kraft.env import FsyncFailed

# Mean times of a solid-state disk, in seconds. Operations that touch only the page cache take no time.
SYNC_SECONDS = 0.0015
SYNC_DIR_SECONDS = 0.001
REMOVE_SECONDS = 0.0002
CAPACITY_BYTES = 1 << 40

Note: TypeAlias = Callable[..., None]


def os_error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


@attrs.define(eq=False)
class _Operation:
    """An operation of the device that a task may wait for."""

    effect: Callable[[], None]
    generation: int
    task: trio.lowlevel.Task | None = None
    error: OSError | None = None


class Volume:
    """A disk, which outlives processes and power cuts. A nemesis sets its faults:

    `slowness` multiplies every time, `is_full` refuses growth (ENOSPC), `is_stalled` lets no operation finish, `broken`
    has the paths below which writing fails (EIO), and `sync_failures` is the probability that an fsync fails.
    """

    def __init__(self, name: str, clock: VirtualClock, rng: Random, note: Note) -> None:
        self.name = name
        self.root = Directory()
        self.locks: dict[str, int] = {}  # path -> incarnation of the process that holds it
        self.slowness = 1.0
        self.is_full = False
        self.broken: tuple[str, ...] = ()
        self.sync_failures = 0.0
        self.faults_met = 0  # the number of operations that failed because of a fault
        self.is_damaged = False  # true if data on the disk differs from the data that was written
        self._is_stalled = False
        self._clock = clock
        self._rng = rng
        self._note = note
        self._generation = 0  # increases with every power cut
        self._held: deque[_Operation] = deque()

    @property
    def is_stalled(self) -> bool:
        return self._is_stalled

    @is_stalled.setter
    def is_stalled(self, stalled: bool) -> None:
        self._is_stalled = stalled
        while not stalled and self._held:
            self._finish(self._held.popleft())

    def heal(self) -> None:
        """Remove all faults. Lost data stays lost."""
        self.slowness = 1.0
        self.is_full = False
        self.broken = ()
        self.sync_failures = 0.0
        self.is_stalled = False

    def find(self, path: str) -> Node | None:
        """The entry at an absolute path, or None. Raises NotADirectoryError below a file."""
        node: Node | None = self.root
        for name in path.split("/"):
            if name:
                if node is None:
                    return None
                if not isinstance(node, Directory):
                    raise os_error(errno.ENOTDIR, path)
                node = node.entries.get(name)
        return node

    def directory(self, path: str) -> Directory:
        """The directory at a path. Raises FileNotFoundError, NotADirectoryError."""
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR, path)
        return node

    def check_writable(self, path: str) -> None:
        """Raise EIO if the device is broken at this path."""
        if self.broken and path.startswith(self.broken):
            self.faults_met += 1
            raise os_error(errno.EIO, path)

    def check_room(self, path: str) -> None:
        """Raise ENOSPC if the disk is full."""
        if self.is_full:
            self.faults_met += 1
            raise os_error(errno.ENOSPC, path)

    def write(self, inode: Inode, path: str, offset: int, data: bytes) -> None:
        """Put bytes into the page cache. A full disk accepts a random prefix of the bytes that extend the file."""
        self.check_writable(path)
        room = len(inode.cached) - offset
        if self.is_full and len(data) > room:
            self._change(inode, offset, data[: self._rng.randint(max(room, 0), len(data) - 1)])
            self.check_room(path)
        self._change(inode, offset, data)

    def truncate(self, inode: Inode, path: str, size: int) -> None:
        """Set the size of a file in the page cache."""
        self.check_writable(path)
        if size != len(inode.cached):
            self._change(inode, size, None)

    def _change(self, inode: Inode, offset: int, data: bytes | None) -> None:
        inode.write(offset, data)
        inode.modified_ms = int((WALL_EPOCH_S + self._clock.now) * 1000)

    async def sync(self, inode: Inode, path: str, is_gone: Callable[[], bool]) -> None:
        """Make durable what was written to the file before the call. Raises FsyncFailed."""
        upto = inode.written

        def effect() -> None:
            if self._rng.random() < self.sync_failures or path.startswith(self.broken):
                # After a failed fsync the pages count as clean, but only some of them are on the disk
                # (lwn.net/Articles/752063).
                inode.lose(upto, self._rng)
                self._note("fsync-failed", self.name, path)
                self._fail_sync(path)
            inode.settle(upto)
            self._note("fsync", self.name, path, len(inode.durable))

        await self._perform(self._rng.expovariate(1 / SYNC_SECONDS), effect, is_gone)

    async def sync_dir(self, directory: Directory, path: str, is_gone: Callable[[], bool]) -> None:
        """Make the entries durable that the directory had at the time of the call. Raises FsyncFailed."""
        upto = directory.changed

        def effect() -> None:
            if self._rng.random() < self.sync_failures or path.startswith(self.broken):
                self._fail_sync(path)  # the journal still has the changes, and may write them at any time
            directory.settle(upto)
            self._note("fsync-dir", self.name, path, len(directory.durable))

        await self._perform(self._rng.expovariate(1 / SYNC_DIR_SECONDS), effect, is_gone)

    async def remove(self, path: str, is_gone: Callable[[], bool]) -> None:
        """Unlink a file, or a directory with all that is in it."""

        def effect() -> None:
            parent, name = split(path)
            self.directory(parent).change((name, None))

        await self._perform(REMOVE_SECONDS, effect, is_gone)

    def power_cut(self, fate: str | None = None) -> None:
        """Drop unsynced data: all of it or a random part, which may be torn.

        With the `fate` "none" no unsynced data is kept, with "all" everything.
        """
        self._generation += 1
        self.locks.clear()
        self.root.power_cut(self._rng, lambda *what: self._note("lost", self.name, *what), fate)
        self.is_stalled = False

    def lose(self, path: str) -> None:
        """Remove a path from page cache and disk. The machine must be without power."""
        self.is_damaged = False
        parent, name = split(path)
        if name:
            self.directory(parent).forget(name)
        else:
            self.root = Directory()

    def flip_bit(self, directory: str, endings: Sequence[str], rng: Random) -> str | None:
        """Flip a bit in the last file with one of these endings. The machine must be without power.

        Returns the position of the bit, or None if there are no such files.
        """
        found = self.find(directory)
        files = found.entries if isinstance(found, Directory) else {}
        lasts = [max((name for name in files if name.endswith(ending)), default=None) for ending in endings]
        choices = [(name, file) for name in lasts if name and isinstance(file := files[name], Inode) and file.durable]
        if not choices:
            return None
        name, file = rng.choice(choices)
        self.is_damaged = True
        return f"{directory}/{name}:{file.flip_bit(rng)}"

    async def _perform(self, seconds: float, effect: Callable[[], None], is_gone: Callable[[], bool]) -> None:
        """Perform an operation of the device and wait for it, uncancellably, as for a thread in a system call.

        A task of a process that `is_gone` stops waiting, but the operation still takes effect.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        operation = _Operation(effect, self._generation, trio.lowlevel.current_task())
        self._clock.after(seconds * self.slowness, self._finish, operation)

        def abort(_: object) -> trio.lowlevel.Abort:
            if not is_gone():
                return trio.lowlevel.Abort.FAILED
            operation.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if operation.error is not None:
            raise operation.error

    def _fail_sync(self, path: str) -> NoReturn:
        self.faults_met += 1
        raise FsyncFailed(errno.EIO, "fsync failed: Input/output error", path)

    def _finish(self, operation: _Operation) -> None:
        if self._is_stalled:
            self._held.append(operation)
            return
        if operation.generation == self._generation:
            try:
                operation.effect()
            except OSError as error:
                operation.error = error
        if operation.task is not None:
            trio.lowlevel.reschedule(operation.task)


def split(path: str) -> tuple[str, str]:
    """Split a path into its parent directory and its name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name
