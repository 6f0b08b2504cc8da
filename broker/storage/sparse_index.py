"""The common part of a segment's two indexes: a file of fixed-size entries, which is loaded on use.

Entries are appended in memory and written to the file together: when the log is flushed, its segment is rolled, or it
is closed. A log that was not closed is read again from its recovery point, which only a flush moves, and its indexes
are rebuilt.
"""

from array import array
from bisect import bisect_left
from operator import lt
from struct import Struct
from typing import ClassVar

from broker.storage.whole_file import replace_whole, sync_file
from kraft.env import Disk, File


class CorruptIndex(ValueError):
    """An index file with content that was never written; it must be rebuilt from the log."""


class SparseIndex:
    """Two columns of integers, each strictly ascending."""

    ENTRY: ClassVar[Struct]
    KEY_TYPE: ClassVar[str]

    __slots__ = ("_changes", "_disk", "_keys", "_saved", "_synced", "_values", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._keys: array[int] | None = None
        self._values: array[int] = array("i")
        self._saved = 0  # entries in the file
        self._changes = self._synced = 0  # the changes of the file so far, and those that are durable

    @property
    def keys(self) -> "array[int]":
        """The first column. Raises CorruptIndex, FileNotFoundError, OSError if it must be loaded."""
        if self._keys is None:
            self.load()
            assert self._keys is not None, "loaded"
        return self._keys

    @property
    def values(self) -> "array[int]":
        """The second column; only valid after `keys`."""
        return self._values

    @property
    def is_loaded(self) -> bool:
        return self._keys is not None

    @property
    def is_synced(self) -> bool:
        """Whether the saved entries are durable. They are not while a sync is under way."""
        return self._synced == self._changes

    def __len__(self) -> int:
        return len(self.keys)

    def reset(self) -> None:
        """Remove all entries; the next `save` changes the file."""
        self._keys = array(self.KEY_TYPE)
        self._values = array("i")
        self._saved = -1
        self._changes += 1

    @classmethod
    def encode(cls, keys: "array[int]", values: "array[int]") -> bytes:
        """The content of a file with these entries."""
        return b"".join(map(cls.ENTRY.pack, keys, values))

    def replace(self, keys: "array[int]", values: "array[int]", content: bytes, value_end: int) -> None:
        """Replace the entries whose values are below `value_end`; `content` is the encoding of the new ones.

        Readers of the file see the old content or the new one. Raises OSError.
        """
        replace_whole(self._disk, self.path, content)
        self._changes += 1
        if self._keys is not None:
            later = bisect_left(self._values, value_end)
            self._keys, self._values = keys + self._keys[later:], values + self._values[later:]
            self._saved = len(keys)
            self.save()

    def release(self) -> None:
        """Free the memory, unless entries are not saved."""
        if self._keys is not None and self._saved == len(self._keys):
            self._keys = None
            self._values = array("i")

    def save(self) -> None:
        """Write unsaved entries to the page cache. Raises OSError."""
        keys = self._keys
        if keys is None or self._saved == len(keys):
            return
        first = max(self._saved, 0)
        pack = self.ENTRY.pack
        content = b"".join([pack(keys[at], self._values[at]) for at in range(first, len(keys))])
        file = self._disk.open(self.path, create=True)
        try:
            if self._saved < 0:
                file.truncate(0)
            if content:
                file.write(first * self.ENTRY.size, (content,))
        finally:
            file.close()
        self._saved = len(keys)
        self._changes += 1

    async def sync(self) -> None:
        """Save, and make the file durable. Raises FsyncFailed, OSError."""
        self.save()
        if not self.is_synced:
            changes = self._changes
            try:
                await sync_file(self._disk, self.path)
            except FileNotFoundError:
                return  # its segment was deleted meanwhile
            self._synced = max(self._synced, changes)

    def _append(self, key: int, value: int) -> None:
        self.keys.append(key)
        self._values.append(value)

    def _truncate(self, count: int) -> None:
        """Drop all but the first `count` entries, in the file too. Raises OSError."""
        keys = self.keys
        del keys[count:]
        del self._values[count:]
        if self._saved > count:
            file = self._disk.open(self.path)
            try:
                file.truncate(count * self.ENTRY.size)
            finally:
                file.close()
            self._saved = count
            self._changes += 1

    def _last(self) -> tuple[int, int] | None:
        """The last entry; if the file is not loaded, only its first and last entries are read and compared."""
        if self._keys is not None:
            return (self._keys[-1], self._values[-1]) if self._keys else None
        file = self._disk.open(self.path)
        try:
            size = self._checked_size(file)
            if size == 0:
                return None
            key, value = self.ENTRY.unpack(file.read(size - self.ENTRY.size, self.ENTRY.size))
            first_key, first_value = self.ENTRY.unpack(file.read(0, self.ENTRY.size))
        finally:
            file.close()
        if key < first_key or value < first_value or first_value < 0:
            raise CorruptIndex(f"Index file {self.path} is corrupt, its last entry is before its first")
        if size > self.ENTRY.size and key == first_key:
            raise CorruptIndex(f"Index file {self.path} is corrupt, its last entry equals its first")
        return key, value

    def _checked_size(self, file: File) -> int:
        size = file.size()
        if size % self.ENTRY.size:
            raise CorruptIndex(
                f"Index file {self.path} is corrupt, found {size} bytes which is neither positive nor a "
                f"multiple of {self.ENTRY.size}"
            )
        return size

    def load(self) -> None:
        """Load the entries. Raises CorruptIndex, FileNotFoundError, OSError."""
        file = self._disk.open(self.path)
        try:
            keys, values = self._decode(file.read(0, self._checked_size(file)))
        finally:
            file.close()
        if not _ascends(keys):
            raise CorruptIndex(f"Index file {self.path} is corrupt, its entries do not ascend")
        if not _ascends(values) or (values and values[0] < 0):
            raise CorruptIndex(f"Index file {self.path} is corrupt, its entries' second halves do not ascend")
        self._keys, self._values = keys, values
        self._saved = len(keys)

    def _decode(self, content: bytes) -> "tuple[array[int], array[int]]":
        raise NotImplementedError


def _ascends(column: "array[int]") -> bool:
    return all(map(lt, column, memoryview(column)[1:]))
