"""How a cleaned segment takes the place of those it was made from, so that a crash leaves one or the other.

It is written as `.cleaned`, which a start puts aside. Once its files are durable they are renamed to `.swap`: from then
on a start completes what follows. The segments that it replaces are renamed to `.deleted`, the oldest first, so that no
record comes back that a tombstone has deleted which is gone. Last, the `.swap` files get their final names. All of this
is done in one go, nothing else comes between, and file systems keep the order.
"""

from collections.abc import Sequence
from typing import Final

from broker.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_file_name,
)
from kraft.env import Disk

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

_FILES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


def cleaned_paths(directory: str, base_offset: int) -> tuple[str, ...]:
    """Where a cleaned segment is written: its batches, its offset index, its time index."""
    return tuple(f"{directory}/{segment_file_name(base_offset, suffix)}{CLEANED_SUFFIX}" for suffix in _FILES)


def swap_in(disk: Disk, segments: Sequence[Segment]) -> list[str]:
    """Put the cleaned segment in the place of these; their files, renamed, are to be removed. Raises OSError."""
    for segment in segments:
        segment.hold_file()  # who still reads it must not find another one under its name
    finals = [f"{segments[0].directory}/{segment_file_name(segments[0].base_offset, suffix)}" for suffix in _FILES]
    for path in finals:
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    replaced = [path for segment in segments for path in segment.delete()]
    for path in finals:
        disk.rename(path + SWAP_SUFFIX, path)
    return replaced
