"""Decodes records one by one and byte by byte: a simple, slow reference for the fast decoders."""

from broker.wire.records import InvalidRecord
from broker.wire.records.varint import read_varint

PlainRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def read_plainly(data: bytes, count: int) -> list[PlainRecord]:
    """Offset delta, timestamp delta, key, value and headers of each record. Raises InvalidRecord."""
    try:
        records = []
        at = 0
        for _ in range(count):
            record, at = _read_record(data, at)
            records.append(record)
    except IndexError:
        raise InvalidRecord("cut") from None
    if at != len(data):
        raise InvalidRecord("bytes are left over")
    return records


def _read_record(data: bytes, at: int) -> tuple[PlainRecord, int]:
    size, at = read_varint(data, at)
    end = at + size
    timestamp_delta, at = read_varint(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at)
    value, at = _read_bytes(data, at)
    header_count, at = read_varint(data, at)
    if header_count < 0:
        raise InvalidRecord("fewer headers than none")
    headers = []
    for _ in range(header_count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise InvalidRecord("a header without a key")
        content, at = _read_bytes(data, at)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if at != end:
        raise InvalidRecord("another length than declared")
    return (offset_delta, timestamp_delta, key, value, tuple(headers)), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size
