"""The transaction index of a segment, `<base offset>.txnindex`: the aborted transactions that end in it (KIP-98).

An entry is int16 version, int64 producer id, int64 first offset, int64 last offset (the marker's), and int64 last
stable offset after the end of the transaction.
"""

from struct import Struct
from typing import NamedTuple

TRANSACTION_INDEX_VERSION = 0

_ENTRY = Struct(">hqqqq")


class CorruptTransactionIndex(ValueError):
    """Bytes that are not a transaction index of a known version."""


class AbortedTransaction(NamedTuple):
    """An aborted transaction in one partition."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def decode_aborted_transactions(content: bytes) -> list[AbortedTransaction]:
    """The entries of an index file. Raises CorruptTransactionIndex."""
    if len(content) % _ENTRY.size:
        raise CorruptTransactionIndex(f"{len(content)} bytes are not a multiple of {_ENTRY.size}")
    entries = [AbortedTransaction(*fields) for fields in _ENTRY.iter_unpack(content)]
    for entry in entries:
        if entry.version > TRANSACTION_INDEX_VERSION:
            raise CorruptTransactionIndex(f"Unexpected aborted transaction version {entry.version}")
    return entries
