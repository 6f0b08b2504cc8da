"""Small files that are read and written as a whole."""

from collections.abc import Callable
from typing import NamedTuple

from kraft.env import Disk, lacks_resources

TEMPORARY_SUFFIX = ".tmp"


class FoundContent(NamedTuple):
    """The content of a file; None if there is no file, or if it cannot be read, for the reason `error`."""

    content: bytes | None
    error: str


def read_whole(disk: Disk, path: str) -> bytes:
    """A file's content. Raises FileNotFoundError, OSError."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def read_whole_from_device(disk: Disk, path: str) -> bytes:
    """As `read_whole`, but past the page cache if the file system can. Raises FileNotFoundError, OSError."""
    file = disk.open(path)
    try:
        return file.read_from_device(0, file.size())
    finally:
        file.close()


def try_to_read(disk: Disk, path: str, read: Callable[[Disk, str], bytes] = read_whole) -> FoundContent:
    """A file's content, as `read` returns it, or why it cannot be read. Raises OSError if no file could be read now."""
    try:
        return FoundContent(read(disk, path), "")
    except FileNotFoundError:
        return FoundContent(None, "")
    except OSError as error:
        if lacks_resources(error):
            raise
        return FoundContent(None, str(error))


def write_whole(disk: Disk, path: str, content: bytes) -> None:
    """Overwrite a file with `content` in place: after a crash it may be a mixture. Raises OSError."""
    file = disk.open(path, create=True)
    try:
        file.write(0, (content,))
        if file.size() != len(content):
            file.truncate(len(content))
    finally:
        file.close()


def replace_whole(disk: Disk, path: str, content: bytes) -> None:
    """Write a new file and rename it: readers of `path` see the old content or the new. Raises OSError.

    The new content survives a crash of the process. After a power cut the file may be the old one, the new one, or on
    some file systems empty; use `replace_durably` if that matters.
    """
    write_whole(disk, path + TEMPORARY_SUFFIX, content)
    disk.rename(path + TEMPORARY_SUFFIX, path)


async def replace_durably(disk: Disk, path: str, content: bytes) -> None:
    """As `replace_whole`, and durable when it returns. Raises OSError, FsyncFailed."""
    temporary = path + TEMPORARY_SUFFIX
    write_whole(disk, temporary, content)
    await sync_file(disk, temporary)
    disk.rename(temporary, path)
    await disk.sync_dir(path.rpartition("/")[0])


async def sync_file(disk: Disk, path: str) -> None:
    """Make a file's content durable. Raises OSError, FsyncFailed."""
    file = disk.open(path)
    try:
        await file.sync()
    finally:
        file.close()
