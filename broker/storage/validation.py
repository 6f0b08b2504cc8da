"""Validates a producer's batch, and rewrites it if the topic's configs require that.

`check_batch` checks the header and the checksum, which is enough for most batches. `adapt_batch` reads the records: for
compacted topics, for timestamps that may be out of range, for headers that cannot be right, and for topics that set
timestamps or compression. The rules, error codes and messages follow Kafka's UnifiedLog.append and LogValidator.
"""

from typing import Final

from broker.storage.log_config import LogConfig
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import (
    DECOMPRESSED_SIZE_MAX,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Compression,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    TimestampType,
    TooLargeContent,
    UnsupportedMagic,
    check_records,
    encode_batch,
    iter_records,
    read_header,
    restamp,
)
from broker.wire.records.batch import ATTRIBUTES_POSITION, CONTROL_FLAG, FOREIGN_ATTRIBUTES, MAGIC
from kraft.checksums import crc32c

# The decompressed size that is always allowed, and the largest ratio to the batch's size beyond it.
_CONTENT_SIZE_MIN: Final = 2 * 1024 * 1024
_CONTENT_RATIO_MAX: Final = 64


class RecordsRejected(KafkaError):
    """INVALID_RECORD or INVALID_TIMESTAMP with the rejected records, as Produce 8+ reports them (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def check_batch(batch: memoryview, config: LogConfig, partition: str) -> BatchHeader:
    """Check that `batch` is one batch that a client may write; returns its header.

    Raises KafkaError CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD.
    """
    size = len(batch)
    if size < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a record batch in {partition}")
    fields = HEADER.unpack_from(batch)
    header = BatchHeader(*fields)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        _,
        base_sequence,
        count,
    ) = fields
    if (
        magic != MAGIC
        or length + LOG_OVERHEAD != size
        or size > config.max_message_bytes
        or size > config.segment_bytes
        or base_offset != 0
        or last_offset_delta < 0
        or count != last_offset_delta + 1
        or attributes & CONTROL_FLAG
        or (producer_id >= 0 and base_sequence < 0)
    ):
        _check_header(batch, header, config, partition)
    if crc32c(batch[ATTRIBUTES_POSITION:]) != crc:
        raise _corrupt(header, partition)
    return header


def _check_header(batch: memoryview, header: BatchHeader, config: LogConfig, partition: str) -> None:
    """Raise the KafkaError for an invalid header, in Kafka's order of checks."""
    try:
        read_header(batch)
    except UnsupportedMagic as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in topic partition {partition}") from error
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {partition}") from error
    size = len(batch)
    if header.size > size:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record batch of {header.size} bytes ends after {size} in {partition}"
        )
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {partition} should be 0, "
            f"but it is {header.base_offset}",
        )
    check_message_size(header.size, config, partition)
    if crc32c(batch[ATTRIBUTES_POSITION : header.size]) != header.crc:
        raise _corrupt(header, partition)
    if header.size < size:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"The append to {partition} has more than one record batch")
    _check_counts(header, partition)
    if header.attributes & CONTROL_FLAG:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"Clients are not allowed to write control records in topic partition {partition}"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id} "
            f"in topic partition {partition}",
        )
    check_segment_size(size, config, partition)


def _check_counts(header: BatchHeader, partition: str) -> None:
    if header.last_offset_delta < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Batch has an invalid offset range: [0, {header.last_offset_delta}] in topic partition {partition}",
        )
    if header.count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Invalid reported count for record batch: {header.count} in topic partition {partition}",
        )
    if header.count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {header.count} "
            f"in topic partition {partition}",
        )


def _corrupt(header: BatchHeader, partition: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}) in topic partition {partition}."
    )


def check_message_size(size: int, config: LogConfig, partition: str) -> None:
    """Raise KafkaError MESSAGE_TOO_LARGE for a batch that is larger than max.message.bytes."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition} is {size} bytes "
            f"which exceeds the maximum configured value of {config.max_message_bytes}.",
        )


def check_segment_size(size: int, config: LogConfig, partition: str) -> None:
    """Raise KafkaError RECORD_LIST_TOO_LARGE for a batch that is larger than a segment."""
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {partition}, "
            f"which exceeds the maximum configured segment size of {config.segment_bytes}.",
        )


def adapt_batch(
    batch: memoryview, header: BatchHeader, config: LogConfig, *, now_ms: int, partition: str
) -> tuple[memoryview, BatchHeader]:
    """Adapt a checked batch to the topic's configs: new timestamps in place, or a recompressed batch in another buffer.

    The max timestamp becomes that of the records, and attributes that are not a producer's are cleared.

    Raises RecordsRejected, and KafkaError CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE.
    """
    timestamp_range = None
    if config.timestamp_type is TimestampType.CREATE_TIME:
        timestamp_range = (
            now_ms - config.message_timestamp_before_max_ms,
            now_ms + config.message_timestamp_after_max_ms,
        )
    try:
        latest = check_records(
            batch,
            0,
            header,
            require_keys=config.compact_enabled,
            timestamp_range=timestamp_range,
            max_size=_content_size_max(len(batch), config),
            max_record_size=config.max_decompressed_message_bytes,
        )
    except InvalidTimestamp as error:
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, str(error), error.record_errors) from error
    except InvalidRecord as error:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, str(error), error.record_errors) from error
    except TooLargeContent as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{error} in topic partition {partition}") from error
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {partition}") from error
    max_timestamp = now_ms if config.timestamp_type is TimestampType.LOG_APPEND_TIME else latest
    target = config.target_compression
    if target is not None and target is not header.compression:
        batch = _recompress(batch, header, target, config, max_timestamp)
        header = read_header(batch)
        check_message_size(len(batch), config, partition)
        check_segment_size(len(batch), config, partition)
    elif (
        header.timestamp_type is not config.timestamp_type
        or header.max_timestamp != max_timestamp
        or header.attributes & FOREIGN_ATTRIBUTES
    ):
        restamp(batch, 0, header, config.timestamp_type, max_timestamp)
    return batch, header


def _content_size_max(batch_size: int, config: LogConfig) -> int:
    """The largest decompressed size of a producer's batch.

    Records seldom compress to a tenth of their size. Without a bound that depends on the batch's own size, a few
    kilobytes would make the broker write and read 100 MiB, which takes 35 ms each time.
    """
    in_proportion = max(_CONTENT_SIZE_MIN, 2 * config.max_message_bytes, _CONTENT_RATIO_MAX * batch_size)
    return min(in_proportion, DECOMPRESSED_SIZE_MAX)


def _recompress(
    batch: memoryview, header: BatchHeader, target: Compression, config: LogConfig, max_timestamp: int
) -> memoryview:
    encoded = encode_batch(
        iter_records(batch, 0, header, max_size=_content_size_max(len(batch), config)),
        compression=target,
        compression_level=config.compression_level(target),
        timestamp_type=config.timestamp_type,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    return memoryview(bytearray(encoded))
