"""A request that has deleted records here, and waits until the followers have deleted them too."""

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import trio

from broker.net.connection import Connection
from broker.net.deadlines import Deadline, Deadlines
from broker.net.reply import Pending
from broker.replication.partition import Partition
from broker.replication.record_deletion import low_watermark
from broker.wire.api.delete_records import DeleteRecordsPartitionResult
from broker.wire.errors import ErrorCode, KafkaError

INVALID_LOW_WATERMARK: Final = -1
# Finds a partition as it is by now. Raises KafkaError where it is here no more.
FindPartition: TypeAlias = Callable[[str, int], Partition]


@attrs.frozen(eq=False)
class Deletion:
    """Records of one partition that are to be gone everywhere; `result` is what the response says of it."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult

    def is_settled(self, find: FindPartition) -> bool:
        """Whether there is nothing to wait for any more: they are gone, or nobody here can tell."""
        try:
            partition = find(self.partition.topic, self.partition.index)
            self.result.low_watermark = low_watermark(partition, partition.leader_log())
        except KafkaError as error:
            self.result.error_code, self.result.low_watermark = error.code, INVALID_LOW_WATERMARK
            return True
        return self.result.low_watermark >= self.offset


class ParkedDeleteRecords(Pending):
    """Complete when each deletion has settled, or when its time is over: those that have not then fail.

    Deletions may be added while the request is carried out. It is answered after `wait` at the earliest.
    """

    __slots__ = ("_answer", "_deadline", "_find", "_open")

    def __init__(self, connection: Connection, find: FindPartition, answer: Callable[[Pending], None]) -> None:
        super().__init__(connection)
        self._open: dict[Partition, list[Deletion]] = {}
        self._find = find
        self._answer = answer
        self._deadline: Deadline | None = None
        self.on_abandon = self._stop_waiting

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self._open

    def add(self, deletion: Deletion) -> None:
        """Wait for this one too."""
        self._open.setdefault(deletion.partition, []).append(deletion)
        deletion.partition.waiters.for_deletions[self] = None

    def wait(self, deadlines: Deadlines, timeout_ms: int) -> None:
        self._deadline = deadlines.add(trio.current_time() + timeout_ms / 1000, self._expire)

    def try_complete(self, partition: Partition) -> None:
        """One of the partitions has moved and has forgotten us."""
        if self.done:
            return
        still_open = [each for each in self._open.pop(partition, ()) if not each.is_settled(self._find)]
        if still_open:
            self._open[partition] = still_open
            partition.waiters.for_deletions[self] = None
        elif not self._open and self._deadline is not None:
            self._finish()

    def _expire(self) -> None:
        for deletions in self._open.values():
            for deletion in deletions:
                deletion.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._finish()

    def _finish(self) -> None:
        self._stop_waiting()
        self._answer(self)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for partition in self._open:
            partition.waiters.for_deletions.pop(self, None)
