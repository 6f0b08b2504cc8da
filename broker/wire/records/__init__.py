"""Record batches v2, the format that producers send, logs store and consumers get."""

from broker.wire.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    check_crc,
    iter_headers,
    patch,
    read_header,
    restamp,
)
from broker.wire.records.check import check_records
from broker.wire.records.compression import Compression
from broker.wire.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    control_type,
    encode_end_transaction_marker,
    read_end_transaction_marker,
)
from broker.wire.records.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    TooLargeContent,
    UnsupportedMagic,
)
from broker.wire.records.partial_check import PartialCheck
from broker.wire.records.record import DECOMPRESSED_SIZE_MAX, Record, encode_batch, iter_records

__all__ = [
    "DECOMPRESSED_SIZE_MAX",
    "HEADER",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Compression",
    "ControlRecordType",
    "CorruptBatch",
    "EndTransactionMarker",
    "InvalidRecord",
    "InvalidTimestamp",
    "PartialCheck",
    "Record",
    "RecordError",
    "TimestampType",
    "TooLargeContent",
    "UnsupportedMagic",
    "check_crc",
    "check_records",
    "control_type",
    "encode_batch",
    "encode_end_transaction_marker",
    "iter_headers",
    "iter_records",
    "patch",
    "read_end_transaction_marker",
    "read_header",
    "restamp",
]
