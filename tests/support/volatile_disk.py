"""A disk in memory that loses unsynced data, as a power cut does with real disks."""

import errno
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

import attrs
import trio

from kraft.env import Buffer, FsyncFailed, NonBlockingSocket, sync_one_by_one

T = TypeVar("T")


@attrs.define
class _Inode:
    cached: bytearray = attrs.field(factory=bytearray)
    durable: bytes = b""
    modified_ms: int = 0  # this disk has no clock: changes of the content do not set it
    # The unsynced changes: (offset, bytes written there), or (size, None) for a truncation.
    unsynced: list[tuple[int, bytes | None]] = attrs.field(factory=list)


def _perform(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
    else:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data


class VolatileFile:
    def __init__(self, disk: "VolatileDisk", path: str, inode: _Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._closed = False

    def read_from_device(self, offset: int, count: int) -> bytes:
        return self.read(offset, count)

    def read(self, offset: int, count: int) -> bytes:
        bad = self._disk.bad.get(self.path, range(0))
        if offset < bad.stop and bad.start < offset + count:
            raise OSError(errno.EIO, "Input/output error", self.path)
        return bytes(self._live().cached[offset : offset + count])

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        self._live().unsynced.append((offset, data))
        _perform(self._inode.cached, offset, data)

    def size(self) -> int:
        return len(self._live().cached)

    def modified_ms(self) -> int:
        return self._live().modified_ms

    def set_modified(self, ms: int) -> None:
        self._live().modified_ms = ms

    def truncate(self, size: int) -> None:
        self._live().unsynced.append((size, None))
        _perform(self._inode.cached, size, None)

    def preallocate(self, size: int) -> None:
        pass

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        raise NotImplementedError

    async def sync(self) -> None:
        inode = self._live()
        self._disk.syncs += 1
        dirty = list(inode.unsynced)
        await self._disk.during_sync()
        del inode.unsynced[: len(dirty)]  # the pages count as clean now, whether written or not
        if self._disk.failing:
            raise FsyncFailed(5, "fsync failed", self.path)
        durable = bytearray(inode.durable)
        for offset, data in dirty:
            _perform(durable, offset, data)
        inode.durable = bytes(durable)

    def close(self) -> None:
        self._closed = True

    def _live(self) -> _Inode:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        return self._inode


async def _at_once() -> None:
    pass


class VolatileDisk:
    """`during_sync` runs inside every sync. With `failing` set, syncs fail and lose the data to be written.

    Reads of `bad` bytes of some paths fail.
    """

    def __init__(self) -> None:
        self.syncs = 0
        self.failing = False
        self.bad: dict[str, range] = {}
        self.during_sync: Callable[[], Awaitable[None]] = _at_once
        self._inodes: dict[str, _Inode] = {}
        self._durable_names: set[str] = set()

    def power_cut(self, rng: Random) -> None:
        """Keep all synced data and some unsynced writes, one of which may be torn."""
        for path, inode in list(self._inodes.items()):
            if path not in self._durable_names:
                del self._inodes[path]
                continue
            content = bytearray(inode.durable)
            for offset, data in inode.unsynced:
                if data is None or rng.random() < 0.5:
                    _perform(content, offset, data and data[: rng.randrange(len(data) + 1)])
            inode.cached, inode.durable, inode.unsynced = content, bytes(content), []

    def content(self, path: str) -> bytes:
        return bytes(self._inodes[path].cached)

    def put(self, path: str, content: bytes) -> None:
        """Create a file, as if left by an earlier run of the machine."""
        self._inodes[path] = _Inode(bytearray(content), content)
        self._durable_names.add(path)

    def flip(self, path: str, at: int, mask: int = 1) -> None:
        """Flip a bit of a file that may be open."""
        self._inodes[path].cached[at] ^= mask

    def open(self, path: str, *, create: bool = False) -> VolatileFile:
        if path not in self._inodes:
            if not create:
                raise FileNotFoundError(path)
            self._inodes[path] = _Inode()
        return VolatileFile(self, path, self._inodes[path])

    def exists(self, path: str) -> bool:
        return path in self._inodes

    def list(self, path: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self._inodes if name.rpartition("/")[0] == path)

    def make_dir(self, path: str) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        self._inodes[new] = self._inodes.pop(old)

    def usage(self, path: str) -> tuple[int, int]:
        raise NotImplementedError

    def lock(self, path: str) -> "VolatileLock":
        return VolatileLock()

    async def remove(self, path: str) -> None:
        self._inodes.pop(path, None)

    async def sync_dir(self, path: str) -> None:
        self._durable_names |= {name for name in self._inodes if name.rpartition("/")[0] == path}

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)

    async def run_apart(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()


class VolatileLock:
    def release(self) -> None:
        pass
