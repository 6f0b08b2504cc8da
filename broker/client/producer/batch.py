"""A batch of records of one partition, from its first record to its outcome. Pure."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

from broker.client.producer.sequences import NO_IDENTITY, NO_SEQUENCE
from broker.client.producer.unread_failures import UnreadFailures
from broker.client.records import NewRecord
from broker.client.types import Header, RecordMetadata, TopicPartition

OnDelivery: TypeAlias = Callable[[RecordMetadata | None, Exception | None], object]

NO_OFFSET: Final = -1
_NO_LOG_APPEND_TIME: Final = -1

# The size of a record without key, value and headers: length, attributes, timestamp and offset deltas, the sizes of key
# and value, the count of headers. An estimate for records of some 100 bytes in a batch of some 100 ms.
RECORD_OVERHEAD_BYTES: Final = 12
_HEADER_OVERHEAD_BYTES: Final = 3


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """An estimate of the bytes that a record takes in an uncompressed batch."""
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + len(name.encode()) + (0 if content is None else len(content))
    return size


class DeliveryObserver:
    """A callback of a record that only watches, as that of a recorder of histories does.

    The errors that it gets do not count as read by the application. It is called on the loop of the producer, in the
    variants for asyncio and for threads, too.
    """

    __slots__ = ("_function",)

    def __init__(self, function: OnDelivery) -> None:
        self._function = function

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self._function(metadata, error)


class Batch:
    """See the module's docstring. A record is known by its index in the batch.

    `size` estimates the uncompressed bytes. Records can be added until it reaches `limit`. `moved` is set when the
    batch was split, or its records were moved to the partitions they belong to: it has the new batch and index of each
    record.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "created_at",
        "encoded",
        "error",
        "identity",
        "is_done",
        "is_on_wire",
        "is_rejected",
        "last_failure",
        "limit",
        "log_append_time_ms",
        "moved",
        "partition",
        "record_errors",
        "records",
        "retry_at",
        "size",
        "unread",
        "unread_failures",
        "waiters",
    )

    def __init__(self, partition: TopicPartition, created_at: float, limit: float) -> None:
        self.partition = partition
        self.created_at = created_at
        self.limit = limit
        self.records: list[NewRecord] = []
        self.size = 0
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.waiters: list[Callable[[], None]] = []
        # On its way to the broker.
        self.identity = NO_IDENTITY
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.is_on_wire = False
        self.is_rejected = False  # under its present sequence, see `Accumulator.reject_sequence`
        self.retry_at = 0.0
        self.last_failure: Exception | None = None
        self.encoded: bytes | None = None
        # The outcome.
        self.is_done = False
        self.error: Exception | None = None
        self.record_errors: dict[int, Exception] = {}
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = _NO_LOG_APPEND_TIME
        self.moved: list[tuple[Batch, int]] | None = None
        # After a failure without a callback: the records whose errors are not read yet, and where they count.
        self.unread: set[int] = set()
        self.unread_failures: UnreadFailures | None = None

    def succeed(self, base_offset: int, log_append_time_ms: int = _NO_LOG_APPEND_TIME) -> None:
        """Notes where the batch was written, and calls back. `base_offset` is NO_OFFSET where it is unknown."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: Exception, record_errors: dict[int, Exception] | None = None) -> None:
        """Notes why the batch was not written, and calls back. `record_errors` are the reasons of single records."""
        self.error = error
        self.record_errors = record_errors or {}
        self._finish()

    def count_unread(self, failures: UnreadFailures, error: Exception) -> None:
        """Counts the records without a callback, before the batch fails with this error."""
        read = (index for index, callback in self.callbacks if not isinstance(callback, DeliveryObserver))
        self.unread = set(range(len(self.records))).difference(read)
        self.unread_failures = failures
        failures.add(len(self.unread), error)

    def note_read(self, index: int) -> None:
        """Notes that the application has read the error of a record."""
        if index in self.unread and self.unread_failures is not None:
            self.unread.discard(index)
            self.unread_failures.read()

    def outcome(self, index: int) -> RecordMetadata | Exception:
        """The record's position in the log, or the error. The batch has to be done."""
        if self.error is not None:
            return self.record_errors.get(index, self.error)
        timestamp_ms = self.log_append_time_ms
        if timestamp_ms == _NO_LOG_APPEND_TIME:
            timestamp_ms = self.records[index][0]
        offset = NO_OFFSET if self.base_offset == NO_OFFSET else self.base_offset + index
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, timestamp_ms)

    def located(self, index: int) -> "tuple[Batch, int]":
        """The batch and the index that the record has now."""
        batch = self
        while batch.moved is not None:
            batch, index = batch.moved[index]
        return batch, index

    def add_callback(self, index: int, callback: OnDelivery) -> None:
        """Calls back with the outcome of a record: when there is one, or at once."""
        if self.is_done:
            self._call_back(index, callback)
        else:
            self.callbacks.append((index, callback))

    def move(self, moved: "list[tuple[Batch, int]]") -> None:
        """Hands the records' callbacks and waiters over to the batches that the records were moved to."""
        self.moved = moved
        self.records = []
        callbacks, self.callbacks = self.callbacks, []
        self._notify_waiters()  # each looks again where its record is now
        for index, callback in callbacks:
            batch, new_index = moved[index]
            batch.add_callback(new_index, callback)

    def _finish(self) -> None:
        assert not self.is_done, "a batch has one outcome"
        self.is_done = True
        self.encoded = None
        callbacks, self.callbacks = self.callbacks, []
        self._notify_waiters()
        # An error of one callback keeps no other one from its outcome.
        with ExitStack() as stack:
            for index, callback in reversed(callbacks):
                stack.callback(self._call_back, index, callback)

    def _notify_waiters(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()

    def _call_back(self, index: int, callback: OnDelivery) -> None:
        outcome = self.outcome(index)
        if isinstance(outcome, Exception):
            callback(None, outcome)
        else:
            callback(outcome, None)
