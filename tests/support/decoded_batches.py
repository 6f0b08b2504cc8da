"""The contents of a record batch."""

from broker.wire.records import Record, check_crc, iter_records, read_header


def decoded(batch: bytes) -> list[Record]:
    """Decode the records of one complete batch, whose checksum must be correct."""
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size == len(batch)
    return list(iter_records(batch, 0, header))
