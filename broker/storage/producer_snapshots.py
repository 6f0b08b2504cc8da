"""The producer snapshots of a partition: files `<20 digit offset>.snapshot` in Kafka's format, version 1.

A snapshot holds the state of every producer after all batches below the offset in its name. It only saves time: the
states can be replayed from an older snapshot or from the log's start. So an unreadable snapshot is deleted, and a
snapshot is written in place; its CRC-32C reveals a torn one. It is in the page cache at once; `sync` makes it durable,
and must be called before the recovery point moves past it.

Layout, big-endian: int16 version, uint32 CRC-32C of all that follows, int32 count, and per producer: int64 id, int16
epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first
offset of the open transaction or -1.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from broker.storage.log_config import MAX_LONG
from broker.storage.segment_files import DELETED_SUFFIX
from broker.storage.whole_file import read_whole, replace_whole, sync_file, write_whole
from kraft.checksums import crc32c
from kraft.env import Disk, Tracer

SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOT_VERSION = 1

_OFFSET_DIGITS = 20

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(ValueError):
    """Bytes that are not a producer snapshot of a known version."""


class ProducerEntry(NamedTuple):
    """One producer in a snapshot. `offset_delta` is the last minus the first offset of its last batch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    body = b"".join((_COUNT.pack(len(entries)), *[_ENTRY.pack(*entry) for entry in entries]))
    return _PREFIX.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers in the content of a snapshot file. Raises CorruptSnapshot."""
    entries_at = _PREFIX.size + _COUNT.size
    if len(data) < entries_at:
        raise CorruptSnapshot(f"Snapshot has {len(data)} bytes, too few for its header")
    version, stored_crc = _PREFIX.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"Snapshot contained an unknown file version {version}")
    body = memoryview(data)[_PREFIX.size :]
    computed_crc = crc32c(body)
    if stored_crc != computed_crc:
        raise CorruptSnapshot(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored_crc}. Computed crc: {computed_crc}"
        )
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or entries_at + count * _ENTRY.size != len(data):
        raise CorruptSnapshot(f"Snapshot claims {count} producers in {len(data)} bytes")
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offset(name: str) -> int | None:
    """The offset in a snapshot file's name; None for any other file."""
    digits = name.removesuffix(SNAPSHOT_SUFFIX)
    if digits == name or len(digits) != _OFFSET_DIGITS or not (digits.isdecimal() and digits.isascii()):
        return None
    offset = int(digits)
    return offset if offset < MAX_LONG else None


class ProducerSnapshots:
    """The snapshot files in one partition's directory.

    `names` is the listing of the directory; other files in it are ignored. A deleted snapshot is renamed to `.deleted`
    at once and passed to `discard`, which removes it off the event loop.
    """

    __slots__ = (
        "_discard",
        "_disk",
        "_offsets",
        "_trace",
        "_unsynced",
        "_writes",
        "directory",
        "incomplete_from",
        "latest_offset",
    )

    def __init__(
        self, disk: Disk, directory: str, names: Iterable[str], *, discard: Callable[[str], None], trace: Tracer
    ) -> None:
        self._disk = disk
        self.directory = directory  # can be set, as a deleted partition's directory is renamed
        self._discard = discard
        self._trace = trace
        self._offsets = sorted(offset for name in names if (offset := snapshot_offset(name)) is not None)
        self._writes = 0
        self._unsynced: dict[int, int] = {}  # the number of the last write, by offset
        # The first offset of damaged batches that the states of producers lack. No snapshot of them is taken then.
        self.incomplete_from: int | None = None
        # A snapshot at or below this offset is not needed: that of the newest one, or the log's start.
        self.latest_offset = self._offsets[-1] if self._offsets else 0

    @property
    def offsets(self) -> Sequence[int]:
        return self._offsets

    def write(self, offset: int, entries: Collection[ProducerEntry]) -> None:
        """Write the snapshot for `offset` to the page cache. Raises OSError."""
        write_whole(self._disk, self.path(offset), encode_snapshot(entries))
        self._offsets.append(offset)
        self._writes += 1
        self._unsynced[offset] = self._writes
        self.latest_offset = offset

    def rewrite(self, offset: int, entries: Collection[ProducerEntry]) -> None:
        """Replace the snapshot for `offset`, which is damaged. Raises OSError."""
        replace_whole(self._disk, self.path(offset), encode_snapshot(entries))
        self._writes += 1
        self._unsynced[offset] = self._writes

    async def sync(self) -> None:
        """Make the written snapshots durable. Raises FsyncFailed, or OSError if a file cannot be opened."""
        for offset, write in list(self._unsynced.items()):
            if offset in self._offsets:
                await sync_file(self._disk, self.path(offset))
            if self._unsynced.get(offset) == write:  # otherwise it was written again meanwhile
                del self._unsynced[offset]

    def unsynced_paths(self) -> list[str]:
        """The files that `sync` would sync."""
        return [self.path(offset) for offset in self._unsynced if offset in self._offsets]

    def load_latest(self, *, default_offset: int) -> tuple[int, list[ProducerEntry]]:
        """The offset and producers of the newest readable snapshot; `default_offset` and none without one."""
        while self._offsets:
            offset = self._offsets[-1]
            try:
                entries = decode_snapshot(read_whole(self._disk, self.path(offset)))
            except (CorruptSnapshot, FileNotFoundError) as error:
                self._trace("storage_snapshot_corrupt", path=self.path(offset), error=str(error))
                self._delete([offset])
            else:
                self.latest_offset = offset
                return offset, entries
        self.latest_offset = default_offset
        return default_offset, []

    def retain_within(self, first_offset: int, log_end_offset: int) -> None:
        """Delete the snapshots outside of a log with this end, whose first segment begins at `first_offset`.

        The one at `first_offset` stays: it has the producers all of whose records were deleted.
        """
        self._delete([offset for offset in self._offsets if not first_offset <= offset <= log_end_offset])

    def retain_for_segments(self, base_offsets: Collection[int]) -> None:
        """Delete the snapshots at offsets where no segment begins, except one after the start of the last segment.

        That one was written when the log was closed. Called when a log is opened, whose directory a crash may have left
        with other snapshots.
        """
        strays = [offset for offset in self._offsets if offset not in base_offsets]
        if strays and (not base_offsets or strays[-1] > max(base_offsets)):
            strays.pop()
        self._delete(strays)

    def delete_before(self, offset: int) -> None:
        """Delete the snapshots of deleted segments: those below the first segment's base offset."""
        if self._offsets and self._offsets[0] < offset:
            self._delete([snapshot for snapshot in self._offsets if snapshot < offset])

    def delete_some(self, offsets: Iterable[int]) -> None:
        """Delete the snapshots at these offsets, if they exist."""
        self._delete([offset for offset in offsets if offset in self._offsets])

    def delete_all(self) -> None:
        self._delete(list(self._offsets))
        self.latest_offset = 0

    def _delete(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._offsets.remove(offset)
            path = self.path(offset)
            try:
                self._disk.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            self._discard(path + DELETED_SUFFIX)

    def path(self, offset: int) -> str:
        """The path of the snapshot for `offset`."""
        return f"{self.directory}/{snapshot_name(offset)}"
