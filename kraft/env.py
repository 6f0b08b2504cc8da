"""The seam between a node and the world.

A node is `Node(env, config).run()`; one object is one process. Whatever a node touches outside itself goes through the
four things of `Env`, or through Trio: Trio carries time, sleeping, tasks and sockets, and a simulator replaces those
underneath unmodified code. Only the disk has two implementations, and this file holds the real one.

Everything on a `Disk` or a `File` is synchronous and touches at most the page cache, except what may take long for
reasons no program controls: `File.sync`, `Disk.sync_dir` and `Disk.remove` are async and leave the event loop.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import random
import resource
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

import attrs
import trio

Buffer: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")

# Linux refuses a longer gather list (IOV_MAX); a longer one is written in pieces.
GATHER_BUFFERS_MAX = 1024


class Tracer(Protocol):
    """The structured log: an event's name and its fields. Checkers and aimed faults listen to it too."""

    def __call__(self, kind: str, /, **fields: object) -> None: ...


class FsyncFailed(OSError):
    """An fsync failed: nobody can know what is durable, so nobody may catch this; the process has to end.

    After a failed fsync Linux marks the pages clean, and a second fsync would succeed without having written them
    (https://lwn.net/Articles/752063/). Recovery therefore rewrites what it reads before it relies on it.
    """


class NonBlockingSocket(Protocol):
    """What `File.send_to` needs of a socket: a kernel descriptor in non-blocking mode."""

    def fileno(self) -> int: ...


class File(Protocol):
    """An open file. Offsets are absolute, there is no cursor, so one File may serve several readers at once."""

    @property
    def path(self) -> str: ...

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; fewer only where the file ends."""
        ...

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other at `offset`, in as few system calls as it takes.

        Raises OSError (ENOSPC, EIO, ...) having written any prefix of them. The bytes are in the page cache when it
        returns: a crash of the process keeps them, a power cut may not. The buffers are not kept.
        """
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long, and give back what `preallocate` took beyond it."""
        ...

    def preallocate(self, size: int) -> None:
        """Hint that the file will grow to `size` bytes; the visible size stays. Never fails: it is only a hint."""
        ...

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        """Hand file bytes to a socket inside the kernel (sendfile); how many went, 0 where the file ends early.

        Raises BlockingIOError when the socket's buffer is full.
        """
        ...

    async def sync(self) -> None:
        """Make everything written before the call durable. Raises FsyncFailed, which ends the process."""
        ...

    def close(self) -> None:
        """Release the descriptor; closing twice is allowed, anything else afterwards raises ValueError."""
        ...


class DiskLock(Protocol):
    """An exclusive claim on a path, dropped by `release` or by the process's death."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system, addressed by absolute paths with "/"."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError unless it exists or `create` is set."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; one that exists is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Move a file or a directory, replacing a file at `new` atomically. Durable after `sync_dir` of the parent."""
        ...

    def usage(self, path: str) -> tuple[int, int]:
        """(total, available to us) in bytes of the volume that holds `path`."""
        ...

    def lock(self, path: str) -> DiskLock:
        """Claim `path` (a file, made if missing) for this process. Raises BlockingIOError when somebody holds it."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; what is not there is fine."""
        ...

    async def sync_dir(self, path: str) -> None:
        """Make the directory's entries (creations, renames, removals) durable. Raises FsyncFailed."""
        ...

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Sync many files, and then directories, as `File.sync` and `sync_dir` do; on the real disk in one thread.

        Raises FsyncFailed, OSError.
        """
        ...

    async def run_apart(self, work: Callable[[], T]) -> T:
        """Run what makes many calls of this disk; on the real one in a thread, in a simulation at once.

        `work` must touch nothing that anybody else works with meanwhile.
        """
        ...


async def sync_one_by_one(disk: Disk, files: Sequence[str], directories: Sequence[str]) -> None:
    """`Disk.sync_all` of a disk that has no threads."""
    for path in files:
        file = disk.open(path)
        try:
            await file.sync()
        finally:
            file.close()
    for path in directories:
        await disk.sync_dir(path)


@attrs.frozen
class Env:
    """What a node is given of the world. `wall` is wall-clock time in seconds since 1970; it may jump."""

    disk: Disk
    rng: random.Random
    wall: Callable[[], float]
    trace: Tracer


def real_env(trace: Tracer) -> Env:
    """The world itself, for a node that is a process of its own."""
    return Env(disk=RealDisk(), rng=random.SystemRandom(), wall=time.time, trace=trace)


def kernel_socket(stream: trio.abc.Stream) -> socket.socket | None:
    """The kernel's non-blocking socket beneath a plain TCP stream, taken over from it; None where there is none.

    A stream that runs over TLS, or over a simulated network, has no descriptor to give, and is served through Trio's
    stream interface instead. On success the stream must not be used again. Raises OSError, with the socket closed.

    The descriptor stays the same one: the process may have no other to give.
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


def descriptor_limit() -> int:
    """How many files and sockets this process may have open (RLIMIT_NOFILE)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class RealDisk:
    """The operating system's file systems."""

    def open(self, path: str, *, create: bool = False) -> "RealFile":
        return RealFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

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
        await trio.to_thread.run_sync(_remove, path)  # unlinking costs about 60 ms per GB

    async def sync_dir(self, path: str) -> None:
        await trio.to_thread.run_sync(_sync_dir, path)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await trio.to_thread.run_sync(_sync_all, files, directories)

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
    """A file descriptor. It closes itself when the last reference goes, so a response being sent keeps its file."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._open(), count, offset)
        if len(data) == count or not data:
            return data
        pieces = [data]
        while piece := os.pread(self._open(), count - sum(map(len, pieces)), offset + sum(map(len, pieces))):
            pieces.append(piece)
        return b"".join(pieces)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        for first in range(0, len(buffers), GATHER_BUFFERS_MAX):
            some = buffers if len(buffers) <= GATHER_BUFFERS_MAX else buffers[first : first + GATHER_BUFFERS_MAX]
            wanted = sum(map(len, some))
            written = os.pwritev(self._open(), some, offset)
            if written < wanted:  # the kernel's 2 GiB limit, or a disk that is filling up
                rest = memoryview(b"".join(some))
                while written < wanted:
                    written += os.pwrite(self._open(), rest[written:], offset + written)
            offset += wanted

    def size(self) -> int:
        return os.fstat(self._open()).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._open(), size)

    def preallocate(self, size: int) -> None:
        if _fallocate is not None:
            _fallocate(self._open(), _FALLOC_FL_KEEP_SIZE, 0, size)

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        return os.sendfile(sock.fileno(), self._open(), offset, count)

    async def sync(self) -> None:
        # The thread works on a duplicate: a close (a deleted segment) must neither fail it nor redirect it.
        descriptor = os.dup(self._open())
        try:
            await trio.to_thread.run_sync(_sync, descriptor, self.path)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> int:
        if self._descriptor < 0:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor

    def __del__(self) -> None:
        self.close()


_FALLOC_FL_KEEP_SIZE = 1
_fallocate: Callable[[int, int, int, int], int] | None = None
with contextlib.suppress(AttributeError, OSError):  # not Linux: segments then grow block by block
    _fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def _sync(descriptor: int, path: str) -> None:
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        raise FsyncFailed(error.errno, f"fsync failed: {error.strerror}", path) from error


def _sync_dir(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # removed in the meantime, and its parent's entry with it
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise FsyncFailed(error.errno, f"fsync failed: {error.strerror}", path) from error
    finally:
        os.close(descriptor)


def _sync_all(files: Sequence[str], directories: Sequence[str]) -> None:
    for path in files:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _sync(descriptor, path)
        finally:
            os.close(descriptor)
    for path in directories:
        _sync_dir(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):
            raise
        shutil.rmtree(path)
