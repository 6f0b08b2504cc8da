"""The transaction index of a segment, `<base offset>.txnindex`: the aborted transactions that end in it (KIP-98).

An entry is int16 version, int64 producer id, int64 first offset, int64 last offset (the marker's), and int64 last
stable offset after the end of the transaction. A segment without aborted transactions has no file.

The version is 0 in Kafka's files. Here it is below 0 and holds 15 bits of the entry's CRC-32C, so that a flipped bit
does not make aborted records visible. Kafka's tools read such entries, as they refuse versions above 0 only. An entry
with version 0 has no checksum.

An entry is written when its marker is appended. Entries that are not durable by then are rebuilt together with the
states of the producers, which know where a transaction began (`producer_replay`).
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from broker.storage.whole_file import read_whole, replace_whole, sync_file, try_to_read
from broker.wire.errors import WireError
from kraft.checksums import crc32c
from kraft.env import Disk

TRANSACTION_INDEX_VERSION: Final = 0

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = Struct(">h")
_BODY: Final = Struct(">qqqq")
_CHECKSUM_MASK: Final = 0x7FFF
_NOT_LOADED: Final = -1
# The content of an index of which no entry is known: shorter than an entry.
_NO_ENTRY: Final = b"\0"


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
    """The index of one segment, in ascending order of the markers.

    It is loaded on use, as bytes: a segment may hold millions of aborted transactions. `is_new` says that the file was
    created, and its directory entry is not durable yet.
    """

    __slots__ = ("_content", "_count", "_disk", "_synced", "_writes", "is_new", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.is_new = False
        self._writes = self._synced = 0  # the writes so far, and those that are durable
        self._content: bytearray | None = None
        self._count = _NOT_LOADED

    @property
    def is_synced(self) -> bool:
        """Whether the entries are durable. They are not while a sync is under way, which may fail or be cancelled."""
        return self._synced == self._writes

    @property
    def is_empty(self) -> bool:
        """Whether the index has no entries. Raises CorruptTransactionIndex, OSError."""
        if self._count == _NOT_LOADED:
            self._load()
        return not self._count

    def since(self, offset: int) -> Iterator[AbortedTransaction]:
        """The transactions that ended at `offset` or later. Raises CorruptTransactionIndex, OSError."""
        if not self.is_empty:
            content = self._loaded()
            for at in range(self._first_since(content, offset), len(content), _ENTRY.size):
                yield self._entry(content, at)

    def extend(self, entries: Sequence[AbortedTransaction]) -> None:
        """Write more entries. Raises OSError."""
        if entries:
            try:
                content = self._loaded()
            except CorruptTransactionIndex as error:
                raise OSError(f"{self.path}: {error}") from error
            packed = encode_aborted_transactions(entries)
            self._write(len(content), packed)
            content += packed
            self._count += len(entries)

    def replace(self, entries: Iterable[AbortedTransaction]) -> None:
        """Make these all the entries. Raises OSError."""
        self._replace(encode_aborted_transactions(entries))

    def replace_by_damage(self) -> None:
        """Make the content one that readers and a start refuse, because the entries are not known. Raises OSError."""
        self._write(0, _NO_ENTRY)
        self._content, self._count = None, _NOT_LOADED

    def rebuild(self, entries: Sequence[AbortedTransaction]) -> None:
        """Make these all the entries; readers of the file see the old content or the new one. Raises OSError."""
        content = encode_aborted_transactions(entries)
        replace_whole(self._disk, self.path, content)
        self._writes += 1
        self._content, self._count = bytearray(content), len(entries)

    def intact_since(self, offset: int) -> list[AbortedTransaction]:
        """The intact entries of transactions that ended at `offset` or later; none if the file cannot be read."""
        content = self._content
        if content is None:
            content = bytearray(try_to_read(self._disk, self.path).content or b"")
        found = []
        for at in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
            fields = _ENTRY.unpack_from(content, at)
            if _is_entry(content, at, fields, offset):
                found.append(AbortedTransaction._make(fields))
        return found

    def is_damaged(self, base_offset: int) -> bool:
        """Whether the index of the segment that begins at `base_offset` has damaged or unfinished entries.

        A file that is loaded is not read again. Raises OSError.
        """
        if self._count == 0 or not self._disk.exists(self.path):
            return False
        content = read_whole(self._disk, self.path) if self._content is None else self._content
        return damage_of_entries(content, base_offset) != ""

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that ended at `offset` or later, and whatever is no entry. Raises OSError."""
        if self._count == 0:
            return
        content = self._content
        if content is None:
            content = bytearray(read_whole(self._disk, self.path)) if self._disk.exists(self.path) else bytearray()
        end, before = 0, -1
        for end in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
            fields = _ENTRY.unpack_from(content, end)
            if not (_is_entry(content, end, fields, before) and before < fields[3] < offset):
                break
            before = fields[3]
        else:
            end = len(content) // _ENTRY.size * _ENTRY.size
        if end < len(content):
            self._replace(bytes(content[:end]))
        else:
            self._content, self._count = content, end // _ENTRY.size

    def release(self) -> None:
        """Free the memory. The entries are loaded again on use."""
        if self._count:
            self._content, self._count = None, _NOT_LOADED

    async def sync(self) -> None:
        """Make the entries durable. Raises FsyncFailed, OSError."""
        if not self.is_synced:
            writes = self._writes
            try:
                await sync_file(self._disk, self.path)
            except FileNotFoundError:
                return  # its segment was deleted meanwhile
            self._synced = max(self._synced, writes)

    def _loaded(self) -> bytearray:
        if self._content is None:
            self._load()
        assert self._content is not None, "loaded"
        return self._content

    def _load(self) -> None:
        content = bytearray(read_whole(self._disk, self.path)) if self._disk.exists(self.path) else bytearray()
        _check_size(content)
        self._content, self._count = content, len(content) // _ENTRY.size

    def _entry(self, content: bytearray, at: int) -> AbortedTransaction:
        fields = _ENTRY.unpack_from(content, at)
        if not _is_entry(content, at, fields, 0):
            raise CorruptTransactionIndex(f"{self.path} is damaged at byte {at}")
        return AbortedTransaction(TRANSACTION_INDEX_VERSION, *fields[1:])

    def _first_since(self, content: bytearray, offset: int) -> int:
        """The position of the first entry with its marker at `offset` or later."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._entry(content, middle * _ENTRY.size).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low * _ENTRY.size

    def _replace(self, content: bytes) -> None:
        if content or self._disk.exists(self.path):
            self._write(0, content)
        self._content, self._count = bytearray(content), len(content) // _ENTRY.size

    def _write(self, position: int, content: bytes) -> None:
        """Write `content` at `position`, and end the file there."""
        self._writes += 1
        file = self._disk.open(self.path, create=True)
        try:
            size = file.size()
            self.is_new = self.is_new or not size
            if size > position:
                file.truncate(position)
            if content:
                file.write(position, (content,))
        finally:
            file.close()


def encode_aborted_transactions(entries: Iterable[AbortedTransaction]) -> bytes:
    """The content of an index file. The version of each entry is replaced by its checksum."""
    pieces = []
    for _, *fields in entries:
        body = _BODY.pack(*fields)
        pieces += [_VERSION.pack(_checksum(body)), body]
    return b"".join(pieces)


def damage_of_entries(content: bytes | bytearray, base_offset: int) -> str:
    """The damage to the content of an index file, as text; "" without any."""
    before = base_offset - 1
    for at in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
        fields = _ENTRY.unpack_from(content, at)
        if not _is_entry(content, at, fields, before + 1):
            return f"the entry at byte {at} is damaged"
        before = fields[3]
    excess = len(content) % _ENTRY.size
    return f"{excess} bytes at its end are no entry" if excess else ""


def _checksum(body: bytes | bytearray) -> int:
    """The version of an entry with these fields: below 0, so that no single flipped bit gives another valid entry."""
    return -1 - (crc32c(body) & _CHECKSUM_MASK)


def _is_entry(content: bytes | bytearray, at: int, fields: tuple[int, ...], base_offset: int) -> bool:
    """Whether the bytes at `at`, which are these fields, are an entry in an index that begins at `base_offset`."""
    version, _, first_offset, last_offset, last_stable_offset = fields
    return (
        version in (TRANSACTION_INDEX_VERSION, _checksum(content[at + _VERSION.size : at + _ENTRY.size]))
        and 0 <= first_offset <= last_offset
        and last_offset >= base_offset
        and last_stable_offset >= 0
    )


def _check_size(content: bytes | bytearray) -> None:
    if len(content) % _ENTRY.size:
        raise CorruptTransactionIndex(f"{len(content)} bytes are not a multiple of {_ENTRY.size}")


def decode_aborted_transactions(content: bytes) -> list[AbortedTransaction]:
    """The entries of an index file. Raises CorruptTransactionIndex."""
    _check_size(content)
    entries = [AbortedTransaction(*fields) for fields in _ENTRY.iter_unpack(content)]
    for entry in entries:
        if entry.version > TRANSACTION_INDEX_VERSION:
            raise CorruptTransactionIndex(f"Unexpected aborted transaction version {entry.version}")
    return entries
