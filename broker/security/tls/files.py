"""The files of key and trust stores, and files in memory for what OpenSSL reads from files only."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from broker.security.regular_files import read_regular_file
from broker.security.tls.settings import TlsConfigError

# A store with all authorities of the web has some 300 KB.
STORE_BYTES_MAX: Final = 8 << 20

# Device, inode, size, and time of the last change: a file that was replaced has others. None if it is gone.
Version: TypeAlias = tuple[int, int, int, int] | None


def read_store(path: str, key: str) -> bytes:
    """The content of a file, which the config `key` names. Raises TlsConfigError."""
    try:
        content = read_regular_file(path, STORE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise TlsConfigError(f"{key}={path} cannot be read: {reason}") from error
    if len(content) > STORE_BYTES_MAX:
        raise TlsConfigError(f"{key}={path} is larger than {STORE_BYTES_MAX >> 20} MiB")
    return content


def is_directory(path: str) -> bool:
    return os.path.isdir(path)


def versions(paths: Sequence[str]) -> tuple[Version, ...]:
    """The versions of files, to be compared with those of a later time."""
    return tuple(map(_version, paths))


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content, for the block. It is in memory, where only this process can open it.

    Other systems than Linux have no such files. There it is a temporary file that only this user can open.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile(prefix="kraft-tls-") as temporary:
            temporary.write(content)
            temporary.flush()
            yield temporary.name
        return
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _version(path: str) -> Version:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
