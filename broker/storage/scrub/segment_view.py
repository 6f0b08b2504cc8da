"""A segment as it is when its check begins, and whether the log still has it."""

from broker.storage.log import Log
from broker.storage.log_dir import PartitionKey
from broker.storage.log_manager import LogManager
from broker.storage.segment import Segment
from kraft import lazy_attrs


@lazy_attrs.frozen
class SegmentView:
    """The batches of `segment` up to `end`, while the log has been truncated `truncations` times."""

    key: PartitionKey
    log: Log
    segment: Segment
    truncations: int
    end: int
    is_active: bool

    @classmethod
    def of(cls, key: PartitionKey, log: Log, segment: Segment) -> "SegmentView":
        is_active = log.segments.active is segment
        return cls(key, log, segment, log.durability.truncations, segment.written, is_active)

    @property
    def allows_gaps(self) -> bool:
        """Whether there may be gaps between offsets, because the log is or was compacted."""
        return self.log.config.compact_enabled or self.log.cleaned_offset >= 0

    @property
    def end_offset(self) -> int:
        """The offset at which the segment ends, by the log and not by the file."""
        at = self.log.segments.index(self.segment)
        is_last = at is None or at + 1 == len(self.log.segments)
        return self.log.readable_end_offset if at is None or is_last else self.log.segments[at + 1].base_offset

    def holds(self, log_manager: LogManager) -> bool:
        """Whether these batches are still those of the log, so that a difference in the file is damage.

        Not after the log was deleted, moved, closed or truncated, or the segment was deleted or compacted.
        """
        log = self.log
        return (
            log_manager.logs.get(self.key) is log
            and log.failure is None
            and not log.durability.is_unsettled
            and log.durability.truncations == self.truncations
            and log.segments.index(self.segment) is not None
        )
