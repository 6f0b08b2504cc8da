"""A marker file in the directory of a log that is being copied to another log directory (KIP-113).

It names the directory of the future log, and says that the log was not compacted since the copy began: the cleaner
removes the marker first. The log directory of the copy may be absent for a while, so that the log is compacted. Then
the copy has records whose tombstones are gone from the log, and a copy that goes on would bring these records back.

The marker need not be durable: without it, the copy begins again. That of a copy that has ended stays until the next
compaction; no other copy has its name.
"""

from typing import Final

from broker.storage.whole_file import read_whole, write_whole
from kraft.env import Disk

MARKER: Final = ".copied-to"


def mark_copied(disk: Disk, directory: str, future_directory: str) -> None:
    """Create the marker for a copy in `future_directory`, in place of one for another copy. Raises OSError."""
    write_whole(disk, f"{directory}/{MARKER}", _content(future_directory))


def is_marked_copied(disk: Disk, directory: str, future_directory: str) -> bool:
    """Whether the log in `directory` was not compacted since its copy in `future_directory` began. Raises OSError."""
    path = f"{directory}/{MARKER}"
    return disk.exists(path) and read_whole(disk, path) == _content(future_directory)


async def unmark_copied(disk: Disk, directory: str) -> None:
    """Remove the marker durably, before the log is compacted. Raises OSError, FsyncFailed."""
    path = f"{directory}/{MARKER}"
    if disk.exists(path):
        await disk.remove(path)
        await disk.sync_dir(directory)


def _content(future_directory: str) -> bytes:
    """The name of the directory alone: the path of its log directory may change."""
    return future_directory.rpartition("/")[2].encode()
