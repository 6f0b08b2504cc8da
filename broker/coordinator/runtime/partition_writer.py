"""Appends the decisions of coordinators to their partitions, many in one batch, and handles failed appends."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import trio

from broker.coordinator.runtime.decision import CoordinatorRecord, Producer
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.net.deadlines import Deadline, Deadlines
from broker.replication.leader_role import leading
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import DECOMPRESSED_SIZE_MAX, HEADER_SIZE, Compression, Record, encode_batch

_ACKS_ALL, _ACKS_LEADER = -1, 1
# The most bytes of a record besides its key and value: five varints, attributes, no headers.
_RECORD_OVERHEAD: Final = 32

# The errors that clients of coordinators get for errors of the partition (CoordinatorOperationExceptionHelper).
_TRANSLATED: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class AppendScheduler:
    """Decides when the partition writers of this broker append, so that many decisions share a batch.

    Decisions made while no earlier batch waits for followers are appended at the end of the turn. Otherwise they are
    held until the earlier batches are committed, for at most `linger_ms`. So followers of a busy broker fetch far less
    often, and a single client does not wait. With a linger of 0, decisions are always appended at the end of the turn.
    """

    def __init__(
        self, partitions: ReplicaManager, deadlines: Deadlines, compression: Compression, linger_ms: float
    ) -> None:
        self._partitions = partitions
        self._deadlines = deadlines
        self.compression = compression
        self._linger_s = linger_ms / 1000
        self._open: dict[PartitionWriter, None] = {}
        self._under_way: dict[PartitionWriter, None] = {}
        self._is_due = False
        self._deadline: Deadline | None = None

    def opened(self, writer: "PartitionWriter") -> None:
        """Called when the writer has records to append."""
        self._open[writer] = None
        if self._is_due:
            return
        if not self._linger_s or not self._has_uncommitted_batches():
            self._write_with_turn()
        elif self._deadline is None:
            self._deadline = self._deadlines.add(trio.current_time() + self._linger_s, self._has_lingered)

    def written(self, writer: "PartitionWriter") -> None:
        """Called when the writer has appended its records."""
        self._open.pop(writer, None)
        self._under_way[writer] = None
        self._partitions.stage(writer.partition)

    def committed(self, writer: "PartitionWriter") -> None:
        """Called when all records that the writer has appended are committed."""
        if writer in self._under_way:
            del self._under_way[writer]
            if self._open and not self._is_due and not self._has_uncommitted_batches():
                self._write_with_turn()

    def ended(self, writer: "PartitionWriter") -> None:
        """Called when the writer is closed; its unwritten records are dropped."""
        self._open.pop(writer, None)
        self._under_way.pop(writer, None)

    def commit(self) -> None:
        """Writes staged batches to the log now, for callers outside of a connection's turn."""
        self._partitions.commit_staged()

    def failed(self, partition: Partition, error: OSError) -> None:
        """Reports that the partition's log cannot be written."""
        self._partitions.log_failed(partition, error)

    def _has_uncommitted_batches(self) -> bool:
        """True if a batch is not committed yet. Stops at the first such writer, which mostly is the first one."""
        for writer in list(self._under_way):
            if not writer.is_committed:
                return True
            del self._under_way[writer]
        return False

    def _has_lingered(self) -> None:
        self._write()
        self._partitions.commit_staged()

    def _write_with_turn(self) -> None:
        self._is_due = True
        self._partitions.stage_later(self._write)

    def _write(self) -> None:
        self._is_due = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for writer in list(self._open):
            writer.write()


class PartitionWriter:
    """Appends the records of one shard to its partition; consecutive decisions become one batch.

    `decided_end` is the log's end offset once all decided records are appended. `give_up` is called if some of them
    cannot be appended: the shard's state is ahead of the log then, and has to be loaded again.
    """

    def __init__(self, partition: Partition, appender: AppendScheduler, give_up: Callable[[], None]) -> None:
        self.partition = partition
        self._epoch = partition.leader_epoch
        self._appender = appender
        self._give_up = give_up
        self._written_end = 0
        self._records: list[Record] = []
        self._size = HEADER_SIZE
        self._now_ms = 0

    def begin(self, end_offset: int) -> None:
        """Starts writing at this end offset of the log. From now on, this writer is the log's only one."""
        self._written_end = end_offset

    @property
    def decided_end(self) -> int:
        return self._written_end + len(self._records)

    @property
    def is_only_writer(self) -> bool:
        """True if the log ends where this writer left it, that is, if no other writer has appended."""
        log = self.partition.log
        return log is not None and log.log_end_offset == self._written_end

    @property
    def committed_end(self) -> int:
        """The offset up to which this writer's records are committed. Never beyond what it has appended itself."""
        return min(self._written_end, self.partition.high_watermark)

    @property
    def is_committed(self) -> bool:
        """True if all appended records are committed."""
        return self.partition.high_watermark >= self._written_end

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int, *, atomic: bool) -> None:
        """Takes records to be appended in this order. Raises KafkaError if they cannot be; then none of them is
        taken.
        """
        partition, size = self.partition, sum(map(_size_of, records))
        try:
            leader = leading(partition)
            size_max = leader.log.config.max_message_bytes
            leader.check_min_isr()
        except KafkaError as error:
            raise as_coordinator_error(error) from error
        if self._size + size > size_max:
            self._write()
            if HEADER_SIZE + size > size_max:
                self._append_much(records, now_ms, None if atomic else size_max)
                return
        self._records += [
            Record(at, now_ms, record.key, record.value) for at, record in enumerate(records, len(self._records))
        ]
        self._size += size
        self._now_ms = now_ms
        self._appender.opened(self)

    def append_transactional(self, records: Sequence[CoordinatorRecord], producer: Producer, now_ms: int) -> None:
        """Appends the records of a transaction, as a batch of their own. Raises KafkaError; then none of them is
        appended.
        """
        self._write()
        numbered = [Record(at, now_ms, record.key, record.value) for at, record in enumerate(records)]
        batch = encode_batch(
            numbered,
            compression=self._appender.compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        self._append(batch, now_ms, len(records), content_bytes=sum(map(_size_of, records)))

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> None:
        """Appends the end marker of a transaction. Raises KafkaError; then it is not appended."""
        self._write()
        self._append(marker.encode(now_ms), now_ms, 1, transaction_version=marker.transaction_version)

    def _append(
        self,
        batch: bytes,
        now_ms: int,
        count: int,
        *,
        acks: int = _ACKS_ALL,
        content_bytes: int = 0,
        transaction_version: int = 0,
    ) -> None:
        """Append a batch of `count` records, which take at most `content_bytes` uncompressed."""
        partition = self.partition
        try:
            if content_bytes > DECOMPRESSED_SIZE_MAX:
                raise KafkaError(
                    ErrorCode.RECORD_LIST_TOO_LARGE, "no coordinator could load a batch that holds so many bytes"
                )
            partition.role.append_as_coordinator(
                memoryview(bytearray(batch)), now_ms, acks=acks, transaction_version=transaction_version
            )
        except KafkaError as error:
            self._report_failure(partition)
            raise as_coordinator_error(error) from error
        self._written_end += count
        self._appender.written(self)

    def write(self) -> None:
        """Appends the taken records; calls `give_up` if that fails."""
        with suppress(KafkaError):
            self._write()

    def _write(self) -> None:
        """Appends with acks=1. Enough replicas were in sync when the records were decided. If there are too few by now,
        the records are not committed before there are enough again. Raises KafkaError after it has called
        `give_up`.
        """
        records, self._records, self._size = self._records, [], HEADER_SIZE
        if not records:
            return
        try:
            if self.partition.leader_epoch != self._epoch or not self.is_only_writer:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            self._stage(records, _ACKS_LEADER, self._now_ms)
        except KafkaError:
            self._give_up()
            raise

    def _append_much(self, records: Sequence[CoordinatorRecord], now_ms: int, size_max: int | None) -> None:
        """Appends records that do not fit into one batch: in several batches, or, if `size_max` is None, in one, which
        is refused.
        """
        for chunk in _chunks(records, size_max):
            numbered = [Record(at, now_ms, record.key, record.value) for at, record in enumerate(chunk)]
            self._stage(numbered, _ACKS_ALL, now_ms)

    def _stage(self, records: list[Record], acks: int, now_ms: int) -> None:
        batch = encode_batch(records, compression=self._appender.compression)
        self._append(batch, now_ms, len(records), acks=acks, content_bytes=sum(map(_size_of, records)))

    def _report_failure(self, partition: Partition) -> None:
        log = partition.log
        if log is not None and log.failure is not None:
            self._appender.failed(partition, log.failure)

    def moved(self) -> None:
        """Called when the high watermark has advanced."""
        if self.is_committed:
            self._appender.committed(self)

    def end(self) -> None:
        """Stops writing, and drops the records that are not appended yet."""
        self._records, self._size = [], HEADER_SIZE
        self._appender.ended(self)


def as_coordinator_error(error: KafkaError) -> KafkaError:
    """The error that a client of the coordinator gets for an error of the partition."""
    return KafkaError(_TRANSLATED.get(error.code, error.code), error.message)


def _chunks(records: Sequence[CoordinatorRecord], size_max: int | None) -> Iterator[Sequence[CoordinatorRecord]]:
    """Splits records into batches of at most `size_max` bytes. A larger record makes a batch of its own."""
    if size_max is None:
        yield records
        return
    start, size = 0, HEADER_SIZE
    for at, record in enumerate(records):
        record_size = _size_of(record)
        if at > start and size + record_size > size_max:
            yield records[start:at]
            start, size = at, HEADER_SIZE
        size += record_size
    if start < len(records):
        yield records[start:]


def _size_of(record: CoordinatorRecord | Record) -> int:
    """The most bytes that the record can take in a batch."""
    return _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
