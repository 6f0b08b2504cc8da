"""Tells an open log that its directory was renamed. Its files stay open; others are opened under their new names."""

from broker.storage.log import Log
from broker.storage.segment_files import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)


def relocate(log: Log, directory: str) -> None:
    """Continue with the files of a log in `directory`. Nothing may be flushed or discarded meanwhile."""
    log.directory, log.partition = directory, directory.rpartition("/")[2]
    log.fetched.partition = log.producers.partition = log.partition
    log.epochs.directory = log.durability.directory = log.segments.directory = directory
    log.producers.snapshots.directory = directory
    for segment in log.segments:
        segment.directory = directory
        for index, suffix in (
            (segment.offset_index, OFFSET_INDEX_SUFFIX),
            (segment.time_index, TIME_INDEX_SUFFIX),
            (segment.transaction_index, TRANSACTION_INDEX_SUFFIX),
        ):
            index.path = f"{directory}/{segment_file_name(segment.base_offset, suffix)}"
