"""What is to be read of one partition's log: its segments, its ends, and the ways to find something in it."""

from broker.storage.segments import LogSlice, Segments
from broker.storage.timestamp_search import TimestampAndOffset, find_max_timestamp, find_timestamp
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import CorruptBatch


class ReadableLog:
    """`log_start_offset` is the first offset anyone may read, `log_end_offset` the next one to be given out,
    `readable_end_offset` the end of what is committed to the file.
    """

    __slots__ = ("log_end_offset", "log_start_offset", "partition", "readable_end_offset", "segments")

    def __init__(self, partition: str, segments: Segments) -> None:
        self.partition = partition  # "topic-0", for messages
        self.segments = segments  # from the oldest to the active one
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.readable_end_offset = 0

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def read(self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool) -> LogSlice:
        """The committed batches from the one with `offset` on, below `upper_bound`, from one segment.

        At most `max_bytes`, but at least a first batch with `min_one_batch`; size 0 where there is nothing to read.
        Raises KafkaError OFFSET_OUT_OF_RANGE outside of the log, KAFKA_STORAGE_ERROR where the file cannot be read.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.partition}, "
                f"but we only have log segments in the range {self.log_start_offset} to {self.log_end_offset}.",
            )
        end_offset = min(upper_bound, self.readable_end_offset)
        if offset >= end_offset:
            return LogSlice(self.segments.active, self.segments.active.written, 0)
        bound = end_offset if end_offset < self.readable_end_offset else None
        try:
            return self.segments.slice(offset, bound, max_bytes, min_one_batch=min_one_batch)
        except (OSError, CorruptBatch) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Exception while reading from {self.partition}: {error}")

    def offset_for_timestamp(self, timestamp: int, *, upper_bound: int) -> TimestampAndOffset | None:
        """The first record below `upper_bound` with a timestamp of at least `timestamp` (ms); None without one.

        Raises KafkaError KAFKA_STORAGE_ERROR where the files cannot be read.
        """
        try:
            found = find_timestamp(self.segments, timestamp, log_start_offset=self.log_start_offset)
        except (OSError, CorruptBatch) as error:
            raise self._unreadable(error) from error
        return found if found is not None and found.offset < upper_bound else None

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all; None in a log without timestamps (KIP-734).

        Raises KafkaError KAFKA_STORAGE_ERROR where the files cannot be read.
        """
        try:
            return find_max_timestamp(self.segments)
        except (OSError, CorruptBatch) as error:
            raise self._unreadable(error) from error
