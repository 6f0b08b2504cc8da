"""Appends the decisions of coordinators to their partitions, many in one batch, and handles failed appends."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from broker.coordinator.runtime.decision import CoordinatorRecord, Producer
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.net.deadlines import Deadline, Deadlines
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import DECOMPRESSED_SIZE_MAX, HEADER_SIZE, Compression
from broker.wire.records.record import encode_data, encode_record

_ACKS_ALL, _ACKS_LEADER = -1, 1

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
        self._write_open()
        self._partitions.commit_staged()

    def _write_with_turn(self) -> None:
        self._is_due = True
        self._partitions.stage_later(self._write_open)

    def _write_open(self) -> None:
        self._is_due = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for writer in list(self._open):
            with suppress(KafkaError):  # the writer has given up
                writer.write()


class PartitionWriter:
    """Appends the records of one shard to the partition of `leader`; consecutive decisions become one batch.

    Records are encoded when they are decided, so that the size of the batch is known. `give_up` is called if some of
    them cannot be appended: the shard's state is ahead of the log then, and has to be loaded again.
    """

    def __init__(self, leader: LeaderRole, appender: AppendScheduler, give_up: Callable[[], None]) -> None:
        self.partition = leader.partition
        self._leader = leader
        self._appender = appender
        self._give_up = give_up
        self._written_end = 0
        self._records: list[bytes] = []
        self._size = HEADER_SIZE
        self._base_timestamp = self._max_timestamp = 0

    def begin(self, end_offset: int) -> None:
        """Starts writing at this end offset of the log. From now on, this writer is the log's only one."""
        self._written_end = end_offset

    @property
    def is_only_writer(self) -> bool:
        """True if the log ends where this writer left it, that is, if no other writer has appended."""
        return self._leader.log.log_end_offset == self._written_end

    @property
    def committed_end(self) -> int:
        """The offset up to which this writer's records are committed. Never beyond what it has appended itself."""
        return min(self._written_end, self.partition.commit_state.high_watermark)

    @property
    def is_committed(self) -> bool:
        """True if all appended records are committed."""
        return self.partition.commit_state.high_watermark >= self._written_end

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int, *, atomic: bool) -> None:
        """Takes records to be appended in this order. Raises KafkaError if they cannot be; then none of them is
        taken.
        """
        try:
            self._leader.check_min_isr()
        except KafkaError as error:
            raise as_coordinator_error(error) from error
        if not self._records:
            self._base_timestamp = self._max_timestamp = now_ms
        encoded = self._encode(records, now_ms)
        size = sum(map(len, encoded))
        if self._size + size <= self._leader.log.config.max_message_bytes:
            self._records += encoded
            self._size += size
            self._max_timestamp = max(self._max_timestamp, now_ms)
            self._appender.opened(self)
        elif self._records:
            self.write()
            self.append(records, now_ms, atomic=atomic)
        elif atomic:
            self._append_records(encoded)  # refused, unless they are small enough when compressed
        else:
            self._append_one_by_one(records, now_ms)

    def _encode(self, records: Sequence[CoordinatorRecord], now_ms: int) -> list[bytes]:
        """The records as they stand in the batch, after those that were taken before."""
        delta_ms = now_ms - self._base_timestamp
        return [
            encode_record(at, delta_ms, each.key, each.value) for at, each in enumerate(records, len(self._records))
        ]

    def _append_one_by_one(self, records: Sequence[CoordinatorRecord], now_ms: int) -> None:
        """Appends records that do not fit into one batch. Calls `give_up` if only some of them can be appended."""
        for at, record in enumerate(records):
            try:
                self.append([record], now_ms, atomic=True)
            except KafkaError:
                if at:
                    self._give_up()
                raise

    def append_transactional(self, records: Sequence[CoordinatorRecord], producer: Producer, now_ms: int) -> None:
        """Appends the records of a transaction, as a batch of their own. Raises KafkaError; then none of them is
        appended.
        """
        self.write()
        self._base_timestamp = now_ms
        batch = encode_data(
            _joined(self._encode(records, now_ms)),
            len(records),
            now_ms,
            now_ms,
            self._appender.compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self._append(batch, now_ms, len(records), _ACKS_ALL)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> None:
        """Appends the end marker of a transaction. Raises KafkaError; then it is not appended."""
        self.write()
        self._append(marker.encode(now_ms), now_ms, 1, _ACKS_ALL, marker.transaction_version)

    def write(self) -> None:
        """Appends the taken records with acks=1. Enough replicas were in sync when the records were decided. If there
        are too few by now, the records are not committed before there are enough again. Raises KafkaError after it has
        called `give_up`.
        """
        records, self._records, self._size = self._records, [], HEADER_SIZE
        if not records:
            return
        try:
            if self.partition.role is not self._leader or not self.is_only_writer:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            self._append_records(records)
        except KafkaError:
            self._give_up()
            raise

    def _append_records(self, records: Sequence[bytes]) -> None:
        """Appends encoded records as one batch, with acks=1."""
        data, count = _joined(records), len(records)
        batch = encode_data(data, count, self._base_timestamp, self._max_timestamp, self._appender.compression)
        self._append(batch, self._max_timestamp, count, _ACKS_LEADER)

    def _append(self, batch: bytes, now_ms: int, count: int, acks: int, transaction_version: int = 0) -> None:
        """Appends a batch of `count` records."""
        partition = self.partition
        try:
            partition.role.append_as_coordinator(
                memoryview(bytearray(batch)), now_ms, acks=acks, transaction_version=transaction_version
            )
        except KafkaError as error:
            log = partition.log
            if log is not None and log.failure is not None:
                self._appender.failed(partition, log.failure)
            raise as_coordinator_error(error) from error
        self._written_end += count
        self._appender.written(self)

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


def _joined(records: Sequence[bytes]) -> bytes:
    """The encoded records as they stand in a batch. Raises KafkaError for more bytes than a coordinator can load."""
    data = b"".join(records)
    if len(data) > DECOMPRESSED_SIZE_MAX:
        raise as_coordinator_error(
            KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"no coordinator could load {len(data)} bytes")
        )
    return data
