"""A log that was cut says so in its directory until that is final.

The process may end before it is (`LogStore.settle`). The next one finds a log in the page cache that looks as if it had
never been longer, and a power cut later what was cut is back: below other records, where the log has been rolled since.
So there is a marker from before anything is cut. It has to outlive the process only, and is not made durable: should a
power cut take it, nothing has been appended behind it, and the log is as it was, or cut.
"""

from collections.abc import Collection
from typing import Final

from kraft.env import Disk

MARKER: Final = ".unsettled"


def mark_unsettled(disk: Disk, directory: str) -> None:
    """Raises OSError."""
    disk.open(f"{directory}/{MARKER}", create=True).close()


def is_marked_unsettled(names: Collection[str]) -> bool:
    """Whether a log's directory in which there are these files is that of a log that was cut."""
    return MARKER in names


async def unmark_unsettled(disk: Disk, directory: str) -> None:
    """What was cut is gone for good. Raises OSError."""
    if disk.exists(f"{directory}/{MARKER}"):
        await disk.remove(f"{directory}/{MARKER}")
