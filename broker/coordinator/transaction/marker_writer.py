"""Appends the end markers of transactions to partitions that this broker leads: the one place that does so."""

from collections.abc import Callable
from typing import TypeAlias

import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.transaction import TopicPartition
from broker.net.completion import Completion
from broker.net.deadlines import Deadline, Deadlines
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.replication.waiters import Acknowledgements
from broker.wire.errors import ErrorCode, KafkaError

# A group coordinator that is loaded, or was just elected, can end the transaction in a moment.
_RETRIED_AS_NOT_LEADER = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)

Outcome: TypeAlias = Completion[ErrorCode]


class MarkerWriter:
    """Writes markers; the caller commits the turn. `offsets` is the runtime of the group coordinators, whose partitions
    have markers appended by it.
    """

    def __init__(
        self,
        partitions: ReplicaManager,
        offsets: CoordinatorRuntime,  # type: ignore[type-arg]  # of any shard
        deadlines: Deadlines,
        *,
        now_ms: Callable[[], int],
        timeout_ms: Callable[[], float],
    ) -> None:
        self._partitions = partitions
        self._offsets = offsets
        self._deadlines = deadlines
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms

    def write(self, marker: TransactionMarker, place: TopicPartition) -> Outcome:
        """Appends a marker; completes with NONE when it is committed, or with an error."""
        written: Outcome = Completion()
        topic, index = place
        if topic == CONSUMER_OFFSETS:
            self._offsets.complete_transaction(index, marker).then(lambda outcome: written.complete(_code_of(outcome)))
            return written
        try:
            partition = self._partitions.get(topic, index)
            self._append(partition, marker, written)
        except KafkaError as error:
            written.complete(error.code)
        return written

    def _append(self, partition: Partition, marker: TransactionMarker, written: Outcome) -> None:
        now_ms = self._now_ms()
        try:
            info = partition.role.append_as_coordinator(
                memoryview(bytearray(marker.encode(now_ms))),
                now_ms,
                transaction_version=marker.transaction_version,
            )
        except KafkaError:
            if partition.log is not None and partition.log.failure is not None:
                self._partitions.log_failed(partition, partition.log.failure)
            raise
        self._partitions.stage(partition)
        end_offset = info.last_offset + 1
        _Wait(written, partition.waiters.for_commit, end_offset, self._deadlines, self._timeout_ms() / 1000)


class _Wait:
    """Completes a write when the high watermark has passed its marker, or in time."""

    __slots__ = ("_acknowledgements", "_deadline", "_written")

    def __init__(
        self,
        written: Outcome,
        acknowledgements: Acknowledgements,
        end_offset: int,
        deadlines: Deadlines,
        timeout_s: float,
    ) -> None:
        self._written = written
        self._acknowledgements = acknowledgements
        self._deadline: Deadline = deadlines.add(trio.current_time() + timeout_s, self._expire)
        acknowledgements.add(self, end_offset)

    def complete(self, code: ErrorCode) -> None:
        self._deadline.cancel()
        self._written.complete(code)

    def _expire(self) -> None:
        self._acknowledgements.discard(self)
        self._written.complete(ErrorCode.REQUEST_TIMED_OUT)


def _code_of(outcome: KafkaError | None) -> ErrorCode:
    if outcome is None:
        return ErrorCode.NONE
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if outcome.code in _RETRIED_AS_NOT_LEADER else outcome.code
