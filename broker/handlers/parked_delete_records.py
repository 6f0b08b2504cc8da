"""A request that has deleted records here, and waits until the followers have deleted them too."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import trio

from broker.net.connection import Connection
from broker.net.deadlines import Deadline, Deadlines
from broker.net.reply import Part, Pending
from broker.replication.partition import Partition
from broker.replication.trimming import low_watermark
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
    """Complete when each deletion has settled, or when its time is over: those that have not then fail."""

    __slots__ = ("_answer", "_deadline", "_find", "_open")

    def __init__(
        self,
        connection: Connection,
        deletions: Sequence[Deletion],
        find: FindPartition,
        answer: Callable[[], bytes | list[Part]],
    ) -> None:
        super().__init__(connection)
        self._open = list(deletions)
        self._find = find
        self._answer = answer
        self._deadline: Deadline | None = None

    def wait(self, deadlines: Deadlines, timeout_ms: int) -> None:
        self.on_abandon = self._stop_waiting
        self._deadline = deadlines.add(trio.current_time() + timeout_ms / 1000, self._expire)
        for deletion in self._open:
            deletion.partition.trimming[self] = None

    def poke(self, partition: Partition) -> None:
        """One of the partitions has moved and has forgotten us."""
        if self.done:
            return
        self._open = [each for each in self._open if each.partition is not partition or not each.is_settled(self._find)]
        if not self._open:
            self._finish()
        elif any(each.partition is partition for each in self._open):
            partition.trimming[self] = None

    def _expire(self) -> None:
        for deletion in self._open:
            deletion.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._finish()

    def _finish(self) -> None:
        self._stop_waiting()
        self.complete(self._answer())

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for deletion in self._open:
            deletion.partition.trimming.pop(self, None)
