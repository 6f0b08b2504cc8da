"""The state of the log without its records: start, end, durable end, and the first offset of each epoch.

All entries of one epoch come from one leader, in order. Two logs with an entry of the same offset and epoch are
therefore equal up to that entry (log matching, Raft's paper, section 5.3). The first offsets of all epochs suffice to
find where two logs diverge (KIP-101, KIP-595).
"""

from bisect import bisect_left, bisect_right
from enum import Enum
from typing import Final

from kraft import lazy_attrs
from kraft.bounds import Epoch, Offset


@lazy_attrs.frozen
class OffsetAndEpoch:
    """A position between two entries: the offset of the next entry, and the epoch of the entry before.

    It identifies snapshots, which cover all entries below `offset`, and the ends of logs.
    """

    offset: Offset
    epoch: Epoch

    def is_before(self, other: "OffsetAndEpoch") -> bool:
        """True if a log that ends here is less up to date than one that ends at `other` (Raft's paper, 5.4.1)."""
        return (self.epoch, self.offset) < (other.epoch, other.offset)


# The start of a log that was never compacted.
_BEGINNING: Final = OffsetAndEpoch(0, 0)


def latest_end(*ends: OffsetAndEpoch) -> OffsetAndEpoch:
    """The end of the log that is the most up to date."""
    return max(ends, key=lambda end: (end.epoch, end.offset))


class Match(Enum):
    SAME = "same"
    DIVERGED = "diverged"
    BELOW_START = "below start"


class LogState:
    """`start` is the snapshot that covers the entries removed from the beginning of the log.

    `lost_end` is set while entries are missing that this replica may have acknowledged, because its disk has lost them:
    the end that the log had. Some of them may be committed.
    """

    def __init__(self, start: OffsetAndEpoch = _BEGINNING) -> None:
        self.start = start
        self.lost_end: OffsetAndEpoch | None = None
        self.end_offset = start.offset
        self.durable_end_offset = start.offset
        self._epochs: list[int] = []
        self._first_offsets: list[int] = []
        self._base_offsets: list[int] = []

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1] if self._epochs else self.start.epoch

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def append(self, base_offset: int, last_offset: int, epoch: int) -> None:
        """Add a batch after the last one. It is not durable yet."""
        assert base_offset == self.end_offset, f"a batch at {base_offset}, the log ends at {self.end_offset}"
        assert epoch >= self.last_epoch, f"a batch of epoch {epoch} after one of {self.last_epoch}"
        if epoch > self.last_epoch or not self._epochs:
            self._epochs.append(epoch)
            self._first_offsets.append(base_offset)
        self._base_offsets.append(base_offset)
        self.end_offset = last_offset + 1
        self._catch_up()

    def synced(self, end: OffsetAndEpoch) -> None:
        """Record that a sync, which began when the log ended at `end`, has finished.

        Ignored if the log has been truncated below `end` since.
        """
        if self.start.offset < end.offset <= self.end_offset and self.epoch_before(end.offset) == end.epoch:
            self.durable_end_offset = max(self.durable_end_offset, end.offset)

    def truncate(self, end_offset: int) -> None:
        """Remove the entries from `end_offset` on."""
        assert end_offset >= self.start.offset, f"truncation to {end_offset}, below the start {self.start.offset}"
        while self._first_offsets and self._first_offsets[-1] >= end_offset:
            self._first_offsets.pop()
            self._epochs.pop()
        del self._base_offsets[bisect_left(self._base_offsets, end_offset) :]
        self.end_offset = min(self.end_offset, end_offset)
        self.durable_end_offset = min(self.durable_end_offset, end_offset)

    def reset(self, snapshot: OffsetAndEpoch) -> None:
        """Remove all entries, and start at the end of a snapshot."""
        self.start = snapshot
        self.end_offset = self.durable_end_offset = snapshot.offset
        self._epochs, self._first_offsets, self._base_offsets = [], [], []
        self._catch_up()

    def start_at(self, snapshot: OffsetAndEpoch) -> None:
        """Replace the entries below the snapshot's offset, which is within the log, by the durable snapshot."""
        assert self.epoch_before(snapshot.offset) == snapshot.epoch, f"the log has no entry that ends at {snapshot}"
        self.start = snapshot
        self.durable_end_offset = max(self.durable_end_offset, snapshot.offset)
        del self._base_offsets[: bisect_left(self._base_offsets, snapshot.offset)]
        gone = bisect_right(self._first_offsets, snapshot.offset) - 1
        if gone >= 0:
            del self._epochs[:gone], self._first_offsets[:gone]
            self._first_offsets[0] = snapshot.offset

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last entry below `offset`, which is within the log."""
        assert self.start.offset <= offset <= self.end_offset, f"{offset} is not within the log"
        index = bisect_right(self._first_offsets, offset - 1) - 1
        return self._epochs[index] if offset > self.start.offset and index >= 0 else self.start.epoch

    def batch_boundary(self, offset: int) -> int:
        """The largest offset up to `offset` at which a batch starts or the log ends. Batches are never split."""
        if offset >= self.end_offset:
            return self.end_offset
        index = bisect_right(self._base_offsets, offset) - 1
        return self._base_offsets[index] if index >= 0 else self.start.offset

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The highest epoch up to `epoch` that has entries in the log, and its end offset.

        Returns `start` for an epoch before that of the start, because the log has no entries of it.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            return self.start
        following = index + 1
        end_offset = self._first_offsets[following] if following < len(self._epochs) else self.end_offset
        return OffsetAndEpoch(end_offset, self._epochs[index])

    def match(self, end: OffsetAndEpoch) -> tuple[Match, OffsetAndEpoch]:
        """Compare another log, which ends at `end`, with this one (KIP-595, Fetch).

        - SAME: this log contains the other one, which can append the entries from `end.offset` on.
        - DIVERGED: the other log has different entries. The logs agree up to the returned position at most.
        - BELOW_START: the other log ends before this one starts, and has to fetch the returned snapshot (KIP-630).
        """
        if end.offset < self.start.offset or end.epoch < self.start.epoch:
            return Match.BELOW_START, self.start
        found = self.end_of_epoch(end.epoch)
        if found.epoch == end.epoch and end.offset <= found.offset and self.epoch_before(end.offset) == end.epoch:
            return Match.SAME, end
        return Match.DIVERGED, found

    def truncation_point(self, diverging: OffsetAndEpoch) -> int:
        """The offset to which this log truncates if the leader's log diverges from it at `diverging`."""
        return self.batch_boundary(min(self.end_of_epoch(diverging.epoch).offset, diverging.offset))

    def is_candidate_up_to_date(self, other: OffsetAndEpoch) -> bool:
        """True if a log that ends at `other` is at least as up to date as this one (Raft's paper, section 5.4.1).

        A log that has lost entries counts with them: so it elects only leaders that have what it acknowledged.
        """
        return not other.is_before(self.end if self.lost_end is None else self.lost_end)

    def _catch_up(self) -> None:
        """Forget the lost entries once the log is as up to date as it was.

        The committed ones of them are in it again: each leader of a later epoch has them, and logs match.
        """
        if self.lost_end is not None and not self.end.is_before(self.lost_end):
            self.lost_end = None
