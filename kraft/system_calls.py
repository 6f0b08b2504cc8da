"""Calls of the operating system that the real disk makes in threads, and that Python does not have as they are."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence


class FsyncFailed(OSError):
    """An fsync failed. The durable state is unknown, so this must not be caught: the process has to end.

    After a failed fsync, Linux marks the pages clean, and a second fsync succeeds without having written them
    (https://lwn.net/Articles/752063/). Recovery therefore writes what it has read again before relying on it.
    """


def lacks_resources(error: OSError) -> bool:
    """Whether descriptors, memory or disk space are short, so that neither the file nor the disk need be damaged."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)


_FALLOC_FL_KEEP_SIZE = 1
_fallocate: Callable[[int, int, int, int], int] | None = None
with contextlib.suppress(AttributeError, OSError):  # without fallocate, segments grow block by block
    _fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(descriptor: int, size: int) -> None:
    """Reserve space up to `size` bytes, which does not change the visible size. Never fails."""
    if _fallocate is not None:
        _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, 0, size)


# On macOS, fsync leaves the data in the cache of the drive, and only this command has it written.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
# The errors of file systems that do not know the command.
_NO_FULL_SYNC = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
_sync_content = getattr(os, "fdatasync", os.fsync)


def _sync_fully(descriptor: int) -> bool:
    """Sync a file or a directory, with the cache of the drive; False if the system has no such call of its own."""
    if _FULL_SYNC is None:
        return False
    try:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    except OSError as error:
        if error.errno not in _NO_FULL_SYNC:
            raise
        return False
    return True


def sync(descriptor: int, path: str) -> None:
    try:
        if not _sync_fully(descriptor):
            _sync_content(descriptor)
    except OSError as error:
        raise FsyncFailed(error.errno, f"fsync failed: {error.strerror}", path) from error


def sync_dir(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # removed in the meantime, and its parent's entry with it
    try:
        if not _sync_fully(descriptor):
            os.fsync(descriptor)
    except OSError as error:
        raise FsyncFailed(error.errno, f"fsync failed: {error.strerror}", path) from error
    finally:
        os.close(descriptor)


def sync_all(files: Sequence[str], directories: Sequence[str]) -> None:
    for path in files:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            sync(descriptor, path)
        finally:
            os.close(descriptor)
    for path in directories:
        sync_dir(path)


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):
            raise
        shutil.rmtree(path)


# The bytes that a file is copied by where the kernel cannot send it; a larger piece does not fit into most sockets.
_COPIED_BYTES = 256 * 1024


def _send_copy(sock: int, descriptor: int, offset: int, count: int) -> int:
    data = os.pread(descriptor, min(count, _COPIED_BYTES), offset)
    return os.write(sock, data) if data else 0


def _write_joined(descriptor: int, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
    return os.pwrite(descriptor, buffers[0] if len(buffers) == 1 else b"".join(buffers), offset)


# `send_file(socket, file, offset, count)` and `write_gathered(file, buffers, offset)` return the number of bytes.
send_file: Callable[[int, int, int, int], int] = getattr(os, "sendfile", _send_copy)
write_gathered: Callable[[int, Sequence[bytes | bytearray | memoryview], int], int] = getattr(
    os, "pwritev", _write_joined
)
