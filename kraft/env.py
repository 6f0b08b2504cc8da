"""The environment of a node: the disk, random numbers, the wall clock and the trace.

A node reaches the outside world only through `Env` and through Trio, which provides time, tasks and sockets. The
simulator replaces both without changes to the node's code. This module holds the real disk; the simulator has its own.

Methods of `Disk` and `File` are synchronous if they touch at most the page cache. `File.sync`, `Disk.sync_dir` and
`Disk.remove` may take long, so they are async and run in a thread.
"""

import fcntl
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

import attrs
import trio

from kraft import lazy_attrs, system_calls
from kraft.direct_reads import DirectReads
from kraft.system_calls import FsyncFailed as FsyncFailed
from kraft.system_calls import lacks_resources as lacks_resources

Buffer: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")

# Linux and macOS refuse longer gather lists (IOV_MAX); longer ones are written in pieces.
GATHER_BUFFERS_MAX = 1024


class Tracer(Protocol):
    """Records an event of the given kind with its fields. Simulations check invariants on these events."""

    def __call__(self, kind: str, /, **fields: object) -> None: ...


class NonBlockingSocket(Protocol):
    """The part of a socket that `File.send_to` uses: a file descriptor in non-blocking mode."""

    def fileno(self) -> int: ...


class File(Protocol):
    """An open file. Offsets are absolute and there is no cursor, so several readers can share one File."""

    @property
    def path(self) -> str: ...

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes at `offset`, or fewer if the file ends before."""
        ...

    def read_from_device(self, offset: int, count: int) -> bytes:
        """As `read`, but past the page cache if the file system can: the bytes are those on the device.

        Pages of the cache stay there, and none is added to it. Changes that are not written yet are written first.
        """
        ...

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other at `offset`, in as few system calls as possible.

        Raises OSError (ENOSPC, EIO, ...) after any prefix of the bytes may have been written. On return, the bytes are
        in the page cache: they survive a crash of the process, but not necessarily a power cut.
        """
        ...

    def size(self) -> int: ...

    def modified_ms(self) -> int:
        """The time of the last change of the content, in ms since 1970 by the machine's clock, or what was set."""

    def set_modified(self, ms: int) -> None:
        """Set what `modified_ms` returns, until the content changes again."""

    def truncate(self, size: int) -> None:
        """Set the file's size to `size` bytes, and free the space beyond it that `preallocate` reserved."""
        ...

    def preallocate(self, size: int) -> None:
        """Hint that the file will grow to `size` bytes. The visible size does not change. Never fails."""
        ...

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        """Send bytes of the file over a socket, inside the kernel if it can (sendfile).

        Returns the number of bytes that were sent, 0 if the file ends at `offset`. Raises BlockingIOError if the
        socket's buffer is full.
        """
        ...

    async def sync(self) -> None:
        """Make everything written before the call durable. Raises FsyncFailed, which ends the process."""
        ...

    def close(self) -> None:
        """Close the descriptor. Closing twice is allowed; other methods then raise ValueError."""
        ...


class DiskLock(Protocol):
    """An exclusive lock of a path. It ends with `release`, or with the process."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system, addressed by absolute paths with "/"."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError if the file is missing and `create` is False."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents, unless it exists."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Move a file or a directory, replacing a file at `new` atomically. Durable after `sync_dir` of the parent."""
        ...

    def usage(self, path: str) -> tuple[int, int]:
        """Return the total and the available bytes of the volume that holds `path`."""
        ...

    def lock(self, path: str) -> DiskLock:
        """Lock the file `path`, which is created if missing. Raises BlockingIOError if it is locked already."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with its contents. A missing path is ignored."""
        ...

    async def sync_dir(self, path: str) -> None:
        """Make the directory's entries (creations, renames, removals) durable. Raises FsyncFailed."""
        ...

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Sync files, then directories, as `File.sync` and `sync_dir` do. The real disk uses one thread for all.

        Raises FsyncFailed, OSError.
        """
        ...

    async def run_apart(self, work: Callable[[], T]) -> T:
        """Run a function that makes many calls of this disk: in a thread on the real disk, at once in a simulation.

        `work` must not use any object that other tasks use meanwhile.
        """
        ...


async def sync_one_by_one(disk: Disk, files: Sequence[str], directories: Sequence[str]) -> None:
    """`Disk.sync_all` for a disk without threads."""
    for path in files:
        file = disk.open(path)
        try:
            await file.sync()
        finally:
            file.close()
    for path in directories:
        await disk.sync_dir(path)


@lazy_attrs.define(eq=False)
class SyncTimes:
    """Where a disk reports how many seconds each fsync of a file took; nowhere while `record` is None."""

    record: Callable[[float], None] | None = None


@lazy_attrs.frozen
class Env:
    """The environment of a node. `wall` returns the seconds since 1970; the wall clock may jump.

    The real disk reports to `sync_times`.
    """

    disk: Disk
    rng: random.Random
    wall: Callable[[], float]
    trace: Tracer
    sync_times: SyncTimes = attrs.field(factory=SyncTimes)


def real_env(trace: Tracer) -> Env:
    """The environment of a node in a process of its own."""
    times = SyncTimes()
    return Env(RealDisk(times), random.SystemRandom(), time.time, trace, times)


def kernel_socket(stream: trio.abc.Stream) -> socket.socket | None:
    """Detach the kernel's socket from a plain TCP stream and make it non-blocking.

    Returns None for other streams, such as TLS or a simulated network: they are served through Trio's stream interface.
    Otherwise the stream must not be used again. Raises OSError, with the socket closed.

    The descriptor is not duplicated, because the process may have no free descriptor.
    """
    if not isinstance(stream, trio.SocketStream) or stream.socket.fileno() < 0:
        return None
    sock = socket.socket(fileno=stream.socket.detach())
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        sock.close()
        raise
    return sock


class RealDisk:
    """The operating system's file systems."""

    _sync_times: SyncTimes | None = None

    def __init__(self, sync_times: SyncTimes | None = None) -> None:
        self._sync_times = sync_times

    def open(self, path: str, *, create: bool = False) -> "RealFile":
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        return RealFile(path, descriptor, self._sync_times)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def usage(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def lock(self, path: str) -> "RealDiskLock":
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return RealDiskLock(descriptor)

    async def remove(self, path: str) -> None:
        await trio.to_thread.run_sync(system_calls.remove, path)  # unlinking costs about 60 ms per GB

    async def sync_dir(self, path: str) -> None:
        await trio.to_thread.run_sync(system_calls.sync_dir, path)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await trio.to_thread.run_sync(system_calls.sync_all, files, directories)

    async def run_apart(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work)


class RealDiskLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealFile:
    """A file descriptor, which is closed with its last reference: a response that is being sent keeps its file open."""

    __slots__ = ("_descriptor", "_direct", "_sync_times", "path")

    def __init__(self, path: str, descriptor: int, sync_times: SyncTimes | None = None) -> None:
        self.path = path
        self._descriptor = descriptor
        self._direct: DirectReads | None = None
        self._sync_times = sync_times

    def read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._open(), count, offset)
        if len(data) == count or not data:
            return data
        pieces = [data]
        while piece := os.pread(self._open(), count - sum(map(len, pieces)), offset + sum(map(len, pieces))):
            pieces.append(piece)
        return b"".join(pieces)

    def read_from_device(self, offset: int, count: int) -> bytes:
        if self._direct is None:
            self._direct = DirectReads(self._open())
        data = self._direct.read(offset, count)
        return data if len(data) == count else self.read(offset, count)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        for first in range(0, len(buffers), GATHER_BUFFERS_MAX):
            some = buffers if len(buffers) <= GATHER_BUFFERS_MAX else buffers[first : first + GATHER_BUFFERS_MAX]
            wanted = sum(map(len, some))
            written = system_calls.write_gathered(self._open(), some, offset)
            if written < wanted:  # the kernel's 2 GiB limit, or a disk that is filling up
                rest = memoryview(b"".join(some))
                while written < wanted:
                    written += os.pwrite(self._open(), rest[written:], offset + written)
            offset += wanted

    def size(self) -> int:
        return os.fstat(self._open()).st_size

    def modified_ms(self) -> int:
        return os.fstat(self._open()).st_mtime_ns // 1_000_000

    def set_modified(self, ms: int) -> None:
        os.utime(self._open(), ns=(os.fstat(self._open()).st_atime_ns, ms * 1_000_000))

    def truncate(self, size: int) -> None:
        os.ftruncate(self._open(), size)

    def preallocate(self, size: int) -> None:
        system_calls.reserve(self._open(), size)

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        return system_calls.send_file(sock.fileno(), self._open(), offset, count)

    async def sync(self) -> None:
        # The thread uses a duplicate descriptor, because the file may be closed meanwhile, as of a deleted segment.
        # Without it the sync could fail, or sync another file that got the same descriptor.
        descriptor, began_s = os.dup(self._open()), time.perf_counter()
        try:
            await trio.to_thread.run_sync(system_calls.sync, descriptor, self.path)
        finally:
            os.close(descriptor)
        if self._sync_times is not None and self._sync_times.record is not None:
            self._sync_times.record(time.perf_counter() - began_s)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        if self._direct is not None:
            self._direct.close()

    def _open(self) -> int:
        if self._descriptor < 0:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor

    def __del__(self) -> None:
        self.close()
