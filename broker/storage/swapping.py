"""Replaces segments by the cleaned segment made from them, so that a crash leaves either the old ones or the new one.

The cleaned segment is written with the suffix `.cleaned`, which a start discards. Once its files are durable they are
renamed to `.swap`; from then on a start completes the replacement. The replaced segments are renamed to `.deleted`, the
oldest first: otherwise a record could come back that was deleted by a tombstone which is gone. At last the `.swap`
files get their final names. All this happens in one turn of the event loop, and file systems keep the order of renames.
"""

from collections.abc import Sequence
from typing import Final

from broker.storage.segment import Segment
from broker.storage.segment_files import SEGMENT_SUFFIXES, segment_file_name
from kraft.env import Disk

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


def cleaned_paths(directory: str, base_offset: int) -> tuple[str, ...]:
    """The paths of a cleaned segment's files: batches, offset index, time index, transaction index."""
    return tuple(f"{directory}/{segment_file_name(base_offset, suffix)}{CLEANED_SUFFIX}" for suffix in SEGMENT_SUFFIXES)


def swap_in(disk: Disk, segments: Sequence[Segment]) -> list[str]:
    """Replace `segments` by the cleaned segment; returns the renamed files, to be removed. Raises OSError."""
    for segment in segments:
        segment.hold_file()  # its readers must not get the new file under its name
    # A cleaned segment without aborted transactions has no transaction index.
    names = [
        f"{segments[0].directory}/{segment_file_name(segments[0].base_offset, suffix)}" for suffix in SEGMENT_SUFFIXES
    ]
    finals = [path for path in names if disk.exists(path + CLEANED_SUFFIX)]
    for path in finals:
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    replaced = [path for segment in segments for path in segment.delete()]
    for path in finals:
        disk.rename(path + SWAP_SUFFIX, path)
    return replaced
