"""A marker file in the directory of a log whose last truncation is not durable yet.

The process may end before that (`Durability.settle`). The next process then finds a log in the page cache that looks
complete, but a later power cut could bring the removed records back, below records that were appended after a roll. The
marker, written before anything is cut, tells the next process to settle the log. It only has to survive the process and
is not made durable: if a power cut removes it, nothing has been appended since, and the log is either as it was or cut.
"""

from collections.abc import Collection
from typing import Final

from kraft.env import Disk

MARKER: Final = ".unsettled"


def mark_unsettled(disk: Disk, directory: str) -> None:
    """Create the marker. Raises OSError."""
    disk.open(f"{directory}/{MARKER}", create=True).close()


def is_marked_unsettled(names: Collection[str]) -> bool:
    """Whether the files of a log's directory include the marker."""
    return MARKER in names


async def unmark_unsettled(disk: Disk, directory: str) -> None:
    """Remove the marker: the truncation is durable. Raises OSError."""
    if disk.exists(f"{directory}/{MARKER}"):
        await disk.remove(f"{directory}/{MARKER}")
