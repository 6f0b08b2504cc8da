"""The transaction index of a segment, `<base offset>.txnindex`: the aborted transactions that end in it (KIP-98).

An entry is int16 version, int64 producer id, int64 first offset, int64 last offset (the marker's), and int64 last
stable offset after the end of the transaction. A segment without aborted transactions has no file.

Entries are written when their markers are appended. Whatever is not durable by then is rebuilt together with the states
of the producers, which know where a transaction began (`producer_replay`).
"""

from bisect import bisect_left
from struct import Struct
from typing import NamedTuple

from broker.storage.whole_file import read_whole
from broker.wire.errors import WireError
from kraft.env import Disk

TRANSACTION_INDEX_VERSION = 0

_ENTRY = Struct(">hqqqq")


class CorruptTransactionIndex(WireError):
    """Bytes that are not a transaction index of a known version."""


class AbortedTransaction(NamedTuple):
    """An aborted transaction in one partition."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of one segment, in ascending order of the markers. It is loaded on use."""

    __slots__ = ("_disk", "_entries", "is_synced", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.is_synced = True
        self._entries: list[AbortedTransaction] | None = None

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries; not to be changed. Raises CorruptTransactionIndex, OSError."""
        if self._entries is None:
            content = read_whole(self._disk, self.path) if self._disk.exists(self.path) else b""
            self._entries = decode_aborted_transactions(content)
        return self._entries

    def since(self, offset: int) -> list[AbortedTransaction]:
        """The transactions that ended at `offset` or later. Raises CorruptTransactionIndex, OSError."""
        entries = self.entries
        if not entries:
            return entries
        return entries[bisect_left(entries, offset, key=lambda entry: entry.last_offset) :]

    def append(self, entry: AbortedTransaction) -> None:
        """Write an entry. Raises OSError."""
        try:
            entries = self.entries
        except CorruptTransactionIndex as error:
            raise OSError(f"{self.path}: {error}") from error
        self._write(len(entries), [entry])
        entries.append(entry)

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Make these all the entries. Raises OSError."""
        if entries or self._disk.exists(self.path):
            self._write(0, entries)
        self._entries = entries

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that ended at `offset` or later; a corrupt index loses all. Raises OSError."""
        try:
            entries = self.entries
        except CorruptTransactionIndex:
            entries = []
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries) or self._entries is None:
            self.replace(kept)

    def release(self) -> None:
        """Free the memory. The entries are loaded again on use."""
        self._entries = None

    async def sync(self) -> None:
        """Make the entries durable. Raises FsyncFailed, OSError."""
        if not self.is_synced:
            self.is_synced = True
            file = self._disk.open(self.path)
            try:
                await file.sync()
            finally:
                file.close()

    def _write(self, at: int, entries: list[AbortedTransaction]) -> None:
        file = self._disk.open(self.path, create=True)
        try:
            if file.size() > at * _ENTRY.size:
                file.truncate(at * _ENTRY.size)
            file.write(at * _ENTRY.size, (b"".join(_ENTRY.pack(*entry) for entry in entries),))
        finally:
            file.close()
        self.is_synced = False


def decode_aborted_transactions(content: bytes) -> list[AbortedTransaction]:
    """The entries of an index file. Raises CorruptTransactionIndex."""
    if len(content) % _ENTRY.size:
        raise CorruptTransactionIndex(f"{len(content)} bytes are not a multiple of {_ENTRY.size}")
    entries = [AbortedTransaction(*fields) for fields in _ENTRY.iter_unpack(content)]
    for entry in entries:
        if entry.version > TRANSACTION_INDEX_VERSION:
            raise CorruptTransactionIndex(f"Unexpected aborted transaction version {entry.version}")
    return entries
