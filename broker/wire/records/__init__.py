"""Record batches v2: what producers send, what logs store, what consumers get."""

from broker.wire.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    TimestampType,
    check_crc,
    iter_headers,
    patch,
    read_header,
    restamp,
)
from broker.wire.records.compression import Compression
from broker.wire.records.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, RecordError, UnsupportedMagic

__all__ = [
    "HEADER",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "BatchHeader",
    "Compression",
    "CorruptBatch",
    "InvalidRecord",
    "InvalidTimestamp",
    "RecordError",
    "TimestampType",
    "UnsupportedMagic",
    "check_crc",
    "iter_headers",
    "patch",
    "read_header",
    "restamp",
]
