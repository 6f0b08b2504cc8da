"""Writing a decision's records to the coordinator's partition, and what it means where that fails."""

from collections.abc import Iterator, Sequence
from typing import Final

from broker.coordinator.decision import CoordinatorError, CoordinatorRecord
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import HEADER_SIZE, Compression, Record, encode_batch

_ACKS_ALL: Final = -1
# What a record takes besides its key and value, at most: five varints, attributes, no headers.
_RECORD_OVERHEAD: Final = 32

# What clients of coordinators are told of errors that are their partitions' (CoordinatorOperationExceptionHelper).
_TRANSLATED: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Appender:
    """Appends to the partitions that this broker leads, with acks=all; what is written is written with the turn."""

    def __init__(self, partitions: Partitions, compression: Compression) -> None:
        self._partitions = partitions
        self._compression = compression

    def append(self, partition: Partition, records: Sequence[CoordinatorRecord], now_ms: int, *, atomic: bool) -> int:
        """Stage the records; the offset of the first. Raises CoordinatorError, and nothing was appended."""
        log = partition.log
        size_max = None if atomic or log is None else log.config.max_message_bytes
        first_offset = -1
        for chunk in _chunks(records, size_max):
            try:
                info = partition.append(self._encoded(chunk, now_ms), _ACKS_ALL, now_ms)
            except KafkaError as error:
                if log is not None and log.failure is not None:
                    self._partitions.log_failed(partition, log.failure)
                raise as_coordinator_error(error) from error
            self._partitions.stage(partition)
            if first_offset < 0:
                first_offset = info.first_offset
        return first_offset

    def commit(self) -> None:
        """Write what is staged, outside of a connection's turn."""
        self._partitions.commit_staged()

    def _encoded(self, records: Sequence[CoordinatorRecord], now_ms: int) -> memoryview:
        numbered = [Record(at, now_ms, record.key, record.value) for at, record in enumerate(records)]
        return memoryview(bytearray(encode_batch(numbered, compression=self._compression)))


def as_coordinator_error(error: KafkaError) -> CoordinatorError:
    """What a client is told of an error of the partition."""
    return CoordinatorError(_TRANSLATED.get(error.code, error.code), error.message)


def _chunks(records: Sequence[CoordinatorRecord], size_max: int | None) -> Iterator[Sequence[CoordinatorRecord]]:
    """Batches that are not larger than `size_max`, as far as single records are not."""
    if size_max is None:
        yield records
        return
    start, size = 0, HEADER_SIZE
    for at, record in enumerate(records):
        record_size = _RECORD_OVERHEAD + len(record.key) + len(record.value or b"")
        if at > start and size + record_size > size_max:
            yield records[start:at]
            start, size = at, HEADER_SIZE
        size += record_size
    if start < len(records):
        yield records[start:]
