"""The offsets up to which the records of a partition are committed and stable."""

from typing import Final

from broker.storage.log import Log

# The isolation levels of a Fetch or ListOffsets request.
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class CommitState:
    """`high_watermark` is the end of the committed records: those that all in-sync replicas have.

    Only `Partition` moves it, in one place, which also notifies the requests that wait for it.
    """

    __slots__ = ("high_watermark",)

    def __init__(self, log: Log | None, high_watermark: int) -> None:
        """`high_watermark` is the checkpointed one, which may lie outside of the log by now."""
        self.high_watermark = 0
        if log is not None:
            self.move(log, min(max(high_watermark, log.log_start_offset), log.log_end_offset))

    def move(self, log: Log, offset: int) -> None:
        """Set the high watermark, and pass it to the producer states, on which the last stable offset depends.

        Otherwise a transaction that has ended would hold back the last stable offset for ever. The producer
        states also need an unchanged offset after they were reloaded from the log.
        """
        self.high_watermark = offset
        producers = log.producers
        if producers.unreplicated:
            producers.advance_high_watermark(offset)

    def last_stable_offset(self, log: Log) -> int:
        """The end of what a consumer with read_committed may read: the first open transaction or the high watermark.

        It is never before the log's start, as the first records of an open transaction may have been deleted.
        """
        unstable = log.producers.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, log.log_start_offset)

    def end_for(self, log: Log, isolation_level: int) -> int:
        """The offset up to which a consumer of this isolation level may read."""
        if isolation_level == READ_COMMITTED:
            return self.last_stable_offset(log)
        return self.high_watermark
