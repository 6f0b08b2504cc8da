"""Names and times of a segment's files. A name is the base offset in 20 digits and a suffix, as in Kafka."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from kraft.env import Disk, File

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# Bytes that `write_again` reads and writes at a time.
_PIECE_BYTES: Final = 1024 * 1024


def segment_file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file."""
    return f"{base_offset:020d}{suffix}"


@contextlib.contextmanager
def keeping_modified_time(file: File) -> Iterator[None]:
    """Keeps the file's time of its last change, for writes that leave its records as they are.

    The retention of records without timestamps counts from this time. Raises OSError.
    """
    modified_ms = file.modified_ms()
    yield
    file.set_modified(modified_ms)


def rename_to_deleted(disk: Disk, paths: Iterable[str]) -> list[str]:
    """Takes those of the files that exist out of a log; returns their new paths. Raises OSError."""
    renamed = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            disk.rename(path, path + DELETED_SUFFIX)
            renamed.append(path + DELETED_SUFFIX)
    return renamed


def write_again(file: File, size: int) -> None:
    """Writes the first `size` bytes of a file again, as they are, so that the next sync writes them. Raises OSError."""
    for position in range(0, size, _PIECE_BYTES):
        piece = file.read(position, min(_PIECE_BYTES, size - position))
        file.write(position, (piece,))
