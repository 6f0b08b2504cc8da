"""Small files that are read and written as a whole."""

from kraft.env import Disk

TEMPORARY_SUFFIX = ".tmp"


def read_whole(disk: Disk, path: str) -> bytes:
    """A file's content. Raises FileNotFoundError, OSError."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_whole(disk: Disk, path: str, content: bytes) -> None:
    """Make `content` the file's content, in place: a crash may leave a mixture. Raises OSError."""
    file = disk.open(path, create=True)
    try:
        file.write(0, (content,))
        if file.size() != len(content):
            file.truncate(len(content))
    finally:
        file.close()


def replace_whole(disk: Disk, path: str, content: bytes) -> None:
    """Write beside and rename: who reads `path` sees the old content or the new. Raises OSError.

    It is in the page cache then: a crash of the process keeps it. After a power cut the file may be the old one, the
    new one or, on some file systems, empty; who cannot bear that takes `replace_durably`.
    """
    write_whole(disk, path + TEMPORARY_SUFFIX, content)
    disk.rename(path + TEMPORARY_SUFFIX, path)


async def replace_durably(disk: Disk, path: str, content: bytes) -> None:
    """Like `replace_whole`, and durable when it returns. Raises OSError, FsyncFailed."""
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
