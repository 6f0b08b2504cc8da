"""`kraft.env.Disk` and `File` over a simulated volume, for one process. All calls fail after its death."""

import errno
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from jepsen.simulation.disk.tree import Directory, Inode
from jepsen.simulation.disk.volume import CAPACITY_BYTES, Volume, os_error, split
from kraft.env import Buffer, NonBlockingSocket, sync_one_by_one

T = TypeVar("T")


class SimulatedDisk:
    """One process's view of its machine's volume. `is_gone` returns True after the process has died.

    Code of a dead process that still runs (a `finally` block) must not reach the disk: it gets EIO.
    """

    def __init__(self, volume: Volume, incarnation: int, is_gone: Callable[[], bool]) -> None:
        self.volume = volume
        self.is_gone = is_gone
        self._incarnation = incarnation

    def open(self, path: str, *, create: bool = False) -> "SimulatedFile":
        self.check(path)
        node = self.volume.find(path)
        if node is None:
            if not create:
                raise os_error(errno.ENOENT, path)
            node = Inode()
            self._add(path, node)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        self.check(path)
        try:
            return self.volume.find(path) is not None
        except NotADirectoryError:
            return False

    def list(self, path: str) -> list[str]:
        self.check(path)
        return sorted(self.volume.directory(path).entries)

    def make_dir(self, path: str) -> None:
        self.check(path)
        parent, name = split(path)
        if name and self.volume.find(parent) is None:
            self.make_dir(parent)
        node = self.volume.find(path)
        if node is None:
            self._add(path, Directory())
        elif not isinstance(node, Directory):
            raise os_error(errno.EEXIST, path)

    def rename(self, old: str, new: str) -> None:
        self.check(old)
        self.volume.check_writable(new)
        (parent, old_name), (new_parent, new_name) = split(old), split(new)
        if parent != new_parent:
            raise os_error(errno.EXDEV, new)  # files are never moved between directories
        directory = self.volume.directory(parent)
        node = directory.entries.get(old_name)
        if node is None:
            raise os_error(errno.ENOENT, old)
        replaced = directory.entries.get(new_name)
        if isinstance(replaced, Directory):
            raise os_error(errno.ENOTEMPTY if isinstance(node, Directory) else errno.EISDIR, new)
        directory.change((old_name, None), (new_name, node))

    def usage(self, path: str) -> tuple[int, int]:
        self.check(path)
        return CAPACITY_BYTES, 0 if self.volume.is_full else CAPACITY_BYTES // 2

    def lock(self, path: str) -> "SimulatedLock":
        self.check(path)
        if path in self.volume.locks:
            raise BlockingIOError(errno.EAGAIN, "the lock is taken", path)
        self.open(path, create=True)
        self.volume.locks[path] = self._incarnation
        return SimulatedLock(self.volume, path, self._incarnation)

    async def remove(self, path: str) -> None:
        self.check(path)
        if self.volume.find(path) is not None:
            self.volume.check_writable(path)
            await self.volume.remove(path, self.is_gone)

    async def sync_dir(self, path: str) -> None:
        self.check(path)
        node = self.volume.find(path)
        if isinstance(node, Directory):
            await self.volume.sync_dir(node, path, self.is_gone)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)

    async def run_apart(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()

    def check(self, path: str) -> None:
        """Raise EIO for a process that is gone."""
        if self.is_gone():
            raise os_error(errno.EIO, path)

    def _add(self, path: str, node: Inode | Directory) -> None:
        parent, name = split(path)
        self.volume.check_writable(path)
        directory = self.volume.directory(parent)
        self.volume.check_room(path)
        directory.change((name, node))


class SimulatedLock:
    """A lock that ends with `release`, with the death of its process, and with a power cut."""

    def __init__(self, volume: Volume, path: str, incarnation: int) -> None:
        self._volume = volume
        self._path = path
        self._incarnation = incarnation

    def release(self) -> None:
        if self._volume.locks.get(self._path) == self._incarnation:
            del self._volume.locks[self._path]


class SimulatedFile:
    """An open file. It refers to the same inode if its name is removed or replaced."""

    __slots__ = ("_disk", "_inode", "_is_closed", "path")

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._is_closed = False

    def read_from_device(self, offset: int, count: int) -> bytes:
        inode = self._open()
        return bytes((inode.on_device() if inode.flips else inode.cached)[offset : offset + count])

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self._open().cached[offset : offset + count])

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._disk.volume.write(self._open(), self.path, offset, b"".join(buffers))

    def size(self) -> int:
        return len(self._open().cached)

    def modified_ms(self) -> int:
        return self._open().modified_ms

    def set_modified(self, ms: int) -> None:
        self._open().modified_ms = ms

    def truncate(self, size: int) -> None:
        self._disk.volume.truncate(self._open(), self.path, size)

    def preallocate(self, size: int) -> None:
        self._open()

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        raise NotImplementedError("a simulated socket has no descriptor to send to")

    async def sync(self) -> None:
        await self._disk.volume.sync(self._open(), self.path, self._disk.is_gone)

    def close(self) -> None:
        self._is_closed = True

    def _open(self) -> Inode:
        if self._is_closed:
            raise ValueError(f"{self.path} is closed")
        self._disk.check(self.path)
        return self._inode
