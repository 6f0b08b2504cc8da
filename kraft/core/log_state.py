"""What the core knows of the log: where it starts and ends, what of it is durable, and which epoch begins where.

Within one epoch all entries come from one leader, in order. So two logs that both have an entry of the same offset and
epoch agree on everything before it (log matching, Raft's paper, section 5.3), and a list of epochs with their first
offsets is all that it takes to find where two logs part (KIP-101, KIP-595).
"""

from bisect import bisect_left, bisect_right
from enum import Enum

import attrs

from kraft.bounds import Epoch, Offset


@attrs.frozen
class OffsetAndEpoch:
    """A place between two entries: `offset` is the next entry's, `epoch` that of the entry before.

    It names snapshots (all entries below `offset`) and ends of logs. Which of two logs is newer: see `no_newer_than`.
    """

    offset: Offset
    epoch: Epoch


class Match(Enum):
    SAME = "same"
    DIVERGED = "diverged"
    BELOW_START = "below start"


class LogState:
    """Offsets are counted from the beginning of the log; `start` is the snapshot that stands for what was removed."""

    def __init__(self, start: OffsetAndEpoch = OffsetAndEpoch(0, 0)) -> None:
        self.start = start
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
        """A batch was placed behind the last one; it is not durable yet."""
        assert base_offset == self.end_offset, f"a batch at {base_offset}, the log ends at {self.end_offset}"
        assert epoch >= self.last_epoch, f"a batch of epoch {epoch} behind one of {self.last_epoch}"
        if epoch > self.last_epoch or not self._epochs:
            self._epochs.append(epoch)
            self._first_offsets.append(base_offset)
        self._base_offsets.append(base_offset)
        self.end_offset = last_offset + 1

    def synced(self, end: OffsetAndEpoch) -> None:
        """The log was durable up to `end` when it ended there. Ignored where it has been truncated in the meantime."""
        if self.start.offset < end.offset <= self.end_offset and self.epoch_before(end.offset) == end.epoch:
            self.durable_end_offset = max(self.durable_end_offset, end.offset)

    def truncate(self, end_offset: int) -> None:
        """Drop what is at `end_offset` and above."""
        assert end_offset >= self.start.offset, f"truncation to {end_offset}, below the start {self.start.offset}"
        while self._first_offsets and self._first_offsets[-1] >= end_offset:
            self._first_offsets.pop()
            self._epochs.pop()
        del self._base_offsets[bisect_left(self._base_offsets, end_offset) :]
        self.end_offset = min(self.end_offset, end_offset)
        self.durable_end_offset = min(self.durable_end_offset, end_offset)

    def reset(self, snapshot: OffsetAndEpoch) -> None:
        """Start anew behind a snapshot."""
        self.start = snapshot
        self.end_offset = self.durable_end_offset = snapshot.offset
        self._epochs, self._first_offsets, self._base_offsets = [], [], []

    def start_at(self, snapshot: OffsetAndEpoch) -> None:
        """A durable snapshot of everything below its offset, which lies in the log, takes their place."""
        assert self.epoch_before(snapshot.offset) == snapshot.epoch, f"the log has nothing that ends at {snapshot}"
        self.start = snapshot
        self.durable_end_offset = max(self.durable_end_offset, snapshot.offset)
        del self._base_offsets[: bisect_left(self._base_offsets, snapshot.offset)]
        gone = bisect_right(self._first_offsets, snapshot.offset) - 1
        if gone >= 0:
            del self._epochs[:gone], self._first_offsets[:gone]
            self._first_offsets[0] = snapshot.offset

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last entry below `offset`, which lies within the log."""
        assert self.start.offset <= offset <= self.end_offset, f"{offset} is not within the log"
        index = bisect_right(self._first_offsets, offset - 1) - 1
        return self._epochs[index] if offset > self.start.offset and index >= 0 else self.start.epoch

    def batch_boundary(self, offset: int) -> int:
        """The last place up to `offset` where a batch begins or the log ends: a batch is in a log as a whole."""
        if offset >= self.end_offset:
            return self.end_offset
        index = bisect_right(self._base_offsets, offset) - 1
        return self._base_offsets[index] if index >= 0 else self.start.offset

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The highest epoch up to `epoch` that is known here, and where it ends.

        For an epoch below that of the start, the start: what came before is only known as a whole.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            return self.start
        behind = index + 1
        end_offset = self._first_offsets[behind] if behind < len(self._epochs) else self.end_offset
        return OffsetAndEpoch(end_offset, self._epochs[index])

    def match(self, end: OffsetAndEpoch) -> tuple[Match, OffsetAndEpoch]:
        """How a log that ends at `end` relates to this one (KIP-595, Fetch).

        SAME: all of it is in here, so the entries from `end.offset` may follow on it. DIVERGED: it has other entries;
        they agree at most up to the given place. BELOW_START: only the given snapshot can help it (KIP-630).
        """
        if end.offset < self.start.offset or end.epoch < self.start.epoch:
            return Match.BELOW_START, self.start
        found = self.end_of_epoch(end.epoch)
        if found.epoch == end.epoch and end.offset <= found.offset and self.epoch_before(end.offset) == end.epoch:
            return Match.SAME, end
        return Match.DIVERGED, found

    def truncation_point(self, diverging: OffsetAndEpoch) -> int:
        """Up to where this log may agree with one that ends `diverging.epoch` (or has nothing of it) there."""
        return self.batch_boundary(min(self.end_of_epoch(diverging.epoch).offset, diverging.offset))

    def no_newer_than(self, other: OffsetAndEpoch) -> bool:
        """Whether a log that ends at `other` is at least as up to date (Raft's paper, section 5.4.1)."""
        return (other.epoch, other.offset) >= (self.last_epoch, self.end_offset)
