"""Waits until the followers have deleted the records that a request has deleted on the leader."""

from collections.abc import Callable
from typing import Final, TypeAlias

from broker.net.completion import RequestWait
from broker.net.deadlines import Deadlines
from broker.replication.partition import Partition
from broker.replication.record_deletion import low_watermark
from broker.wire.api.delete_records import DeleteRecordsPartitionResult
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

INVALID_LOW_WATERMARK: Final = -1
# Finds this broker's current replica of the partition. Raises KafkaError if there is none.
FindPartition: TypeAlias = Callable[[str, int], Partition]


@lazy_attrs.frozen(eq=False)
class Deletion:
    """The deletion of one partition's records before `offset`. `result` is the partition's part of the response."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult

    def update_result(self, find: FindPartition) -> bool:
        """Set the result. True if the records are deleted everywhere, or if this broker cannot tell any more."""
        try:
            partition = find(self.partition.topic, self.partition.index)
            self.result.low_watermark = low_watermark(partition, partition.leader_log())
        except KafkaError as error:
            self.result.error_code, self.result.low_watermark = error.code, INVALID_LOW_WATERMARK
            return True
        return self.result.low_watermark >= self.offset


class DeletionWait(RequestWait[None]):
    """Completes when each deletion is done, or at its deadline: the others fail then.

    Deletions are added one by one while the request is carried out. The wait completes after `begin` at the earliest.
    """

    __slots__ = ("_find", "_has_begun", "_open")

    def __init__(self, find: FindPartition) -> None:
        super().__init__()
        self._open: dict[Partition, list[Deletion]] = {}
        self._find = find
        self._has_begun = False

    def add(self, deletion: Deletion) -> None:
        """Wait for this deletion, too."""
        self._open.setdefault(deletion.partition, []).append(deletion)
        deletion.partition.waiters.for_deletions[self] = None

    def begin(self, deadlines: Deadlines, timeout_ms: int) -> None:
        """Wait for the added deletions, for at most `timeout_ms`."""
        self._has_begun = True
        if self._open:
            self.expire_in(deadlines, timeout_ms / 1000, self._expire)
        else:
            self.complete(None)

    def try_complete(self, partition: Partition) -> None:
        """Called when the followers of a partition have deleted records; see `broker.replication.waiters.Waiter`."""
        if self.done:
            return
        still_open = [each for each in self._open.pop(partition, ()) if not each.update_result(self._find)]
        if still_open:
            self._open[partition] = still_open
            partition.waiters.for_deletions[self] = None
        elif not self._open and self._has_begun:
            self.complete(None)

    def stop_waiting(self) -> None:
        for partition in self._open:
            partition.waiters.for_deletions.pop(self, None)

    def _expire(self) -> None:
        for deletions in self._open.values():
            for deletion in deletions:
                deletion.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.complete(None)
