"""The records of one share-partition that are in flight, as ranges of offsets with the same state (KIP-932).

A record is in flight from its first delivery until the share-partition's start offset passes it. Records of one batch
share a range as long as their states agree. Acknowledgements of single records split a range, and neighbours that agree
again are merged, so that the work depends on the number of different states, not on the number of records.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from broker.coordinator.share.share_state import StateBatch

NO_MEMBER: Final = ""


class RecordState(IntEnum):
    """The state of a record for one share group. The share coordinator stores these numbers.

    Only an AVAILABLE record can be acquired. ACKNOWLEDGED and ARCHIVED are final. ARCHIVING records have failed, and
    become ARCHIVED once they are copied to the group's dead-letter topic (KIP-1191).
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


FINAL_STATES: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class DeadLetterCause(StrEnum):
    """The reason for which a record has failed, in Kafka's words. They stand in the headers of dead letters."""

    REJECTED = "Offset rejected by client."
    DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class DeadLetters(NamedTuple):
    """The records from `first_offset` to `last_offset`, which have failed for one reason."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: DeadLetterCause


class StateWrite:
    """Changes of state that the share coordinator has to store, in the order of their offsets.

    Records that are changed by an acknowledgement keep a reference to the write until it is completed: they can neither
    be acquired nor acknowledged meanwhile. Other changes apply at once, also if the write fails. `dead_letters` are the
    changed records that are copied to the dead-letter topic after the write.
    """

    __slots__ = ("applies_at_once", "batches", "dead_letters")

    def __init__(self, *, applies_at_once: bool = False) -> None:
        self.applies_at_once = applies_at_once
        self.batches: list[StateBatch] = []
        self.dead_letters: list[DeadLetters] = []

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest offset among the changes."""
        return min(batch.first_offset for batch in self.batches), max(batch.last_offset for batch in self.batches)

    def add(self, records: "InFlightRange") -> None:
        """Add the records' state; it is joined with the last batch if it continues that one."""
        state, count = int(records.state), records.delivery_count
        if self.batches:
            last = self.batches[-1]
            if last[1:] == (records.first - 1, state, count):
                self.batches[-1] = last._replace(last_offset=records.last)
                return
        self.batches.append(StateBatch(records.first, records.last, state, count))


class InFlightRange:
    """The records from `first` to `last`, which have the same state. Offsets without a record may be among them.

    `delivery_count` is the number of deliveries, including the one in progress. `member_id` and `locked_until_ms`
    belong to the lock of ACQUIRED records. With a `pending` write, `state` is the state after it, and the lock is kept
    for the case that the write fails. `batch_records` is the size of the batch with which the records were delivered
    first; records that fail again and again are delivered in parts of it.
    """

    __slots__ = ("batch_records", "delivery_count", "first", "last", "locked_until_ms", "member_id", "pending", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        *,
        member_id: str = NO_MEMBER,
        locked_until_ms: float = 0,
        batch_records: int = 0,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.locked_until_ms = locked_until_ms
        self.pending: StateWrite | None = None
        self.batch_records = batch_records or last - first + 1

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        """True if the records can be acquired."""
        return self.state is RecordState.AVAILABLE and self.pending is None

    @property
    def is_acquired(self) -> bool:
        return self.state is RecordState.ACQUIRED

    @property
    def is_final(self) -> bool:
        """True if the records are acknowledged or archived, and the state of that is stored."""
        return self.state in FINAL_STATES and self.pending is None

    def acquire(self, member_id: str, locked_until_ms: float) -> None:
        """Deliver the records to a member."""
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id, self.locked_until_ms = member_id, locked_until_ms

    def extend(self, last: int) -> None:
        """Let records that are delivered for the first time end at `last`."""
        self.last = last
        self.batch_records = len(self)

    def unlock(self) -> None:
        """Forget the lock and the write."""
        self.member_id, self.locked_until_ms, self.pending = NO_MEMBER, 0, None

    def split_before(self, offset: int) -> "InFlightRange":
        """Cut the range in front of `offset`, and return the part from there on."""
        assert self.first < offset <= self.last, "both parts have records"
        rest = InFlightRange(offset, self.last, self.state, self.delivery_count, batch_records=self.batch_records)
        rest.member_id, rest.locked_until_ms, rest.pending = self.member_id, self.locked_until_ms, self.pending
        self.last = offset - 1
        return rest

    def continues(self, before: "InFlightRange") -> bool:
        """True if this range follows `before` without a gap, and agrees with it in everything."""
        return (
            before.last + 1 == self.first
            and before.state is self.state
            and before.delivery_count == self.delivery_count
            and before.pending is self.pending
            and before.member_id == self.member_id
            and before.locked_until_ms == self.locked_until_ms
            and (before.batch_records == self.batch_records or self.is_final)
        )


class InFlightRecords:
    """Disjoint ranges in the order of their offsets. Offsets between two ranges have no record.

    `complete_count` is the number of offsets in final states; those being stored are among them. It and the available
    ranges are kept up to date by each change, because they are asked for at each fetch and at each write, and there may
    be 10,000 ranges. So the state of a range is changed by `change_state` and `acquire`; after the end of a write,
    `merge` finds the ranges that are available again.

    `_firsts` has the first offset of each range, because a search among numbers takes a fifth of the time.
    `_available` has the first offsets of the available ranges.
    """

    __slots__ = ("_available", "_firsts", "_ranges", "complete_count")

    def __init__(self) -> None:
        self._ranges: list[InFlightRange] = []
        self._firsts: list[int] = []
        self._available: list[int] = []
        self.complete_count = 0

    def __iter__(self) -> Iterator[InFlightRange]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def first(self) -> InFlightRange | None:
        return self._ranges[0] if self._ranges else None

    @property
    def first_available(self) -> int | None:
        """The offset of the first record that can be acquired."""
        return self._available[0] if self._available else None

    def add(self, records: InFlightRange) -> None:
        """Add records that are not in flight yet."""
        at = bisect_right(self._firsts, records.first)
        assert at == 0 or self._ranges[at - 1].last < records.first, "ranges are disjoint"
        assert at == len(self._ranges) or records.last < self._firsts[at], "ranges are disjoint"
        self._insert(at, records)
        if records.state in FINAL_STATES:
            self.complete_count += len(records)

    def change_state(self, records: InFlightRange, state: RecordState) -> None:
        """Change the state of a range. `merge` has to follow if that makes the range available or unavailable."""
        if records.state in FINAL_STATES:
            self.complete_count -= len(records)
        if state in FINAL_STATES:
            self.complete_count += len(records)
        records.state = state

    def acquire(self, records: InFlightRange, member_id: str, locked_until_ms: float) -> None:
        """Deliver an available range to a member."""
        assert records.is_available, "it is not delivered to two members"
        del self._available[bisect_left(self._available, records.first)]
        records.acquire(member_id, locked_until_ms)

    def overlapping(self, first: int, last: int) -> list[InFlightRange]:
        """The ranges with offsets from `first` to `last`, in order."""
        at = max(bisect_right(self._firsts, first) - 1, 0)
        end = bisect_right(self._firsts, last, lo=at)
        found = self._ranges[at:end]
        if found and found[0].last < first:
            del found[0]
        return found

    def isolate(self, first: int, last: int) -> list[InFlightRange]:
        """As `overlapping`, after splitting ranges that reach beyond `first` or `last`."""
        self._split_before(first)
        self._split_before(last + 1)
        return self.overlapping(first, last)

    def remove_before(self, offset: int) -> None:
        """Remove all records below `offset`."""
        self._split_before(offset)
        self._remove_leading(bisect_right(self._firsts, offset - 1))

    def remove_leading_final(self) -> None:
        """Remove final records up to the first one that is not final."""
        count = 0
        for records in self._ranges:
            if not records.is_final:
                break
            count += 1
        if count:
            self._remove_leading(count)

    def merge(self, first: int, last: int) -> None:
        """Join neighbours that agree, from the range in front of `first` to the one after `last`, and find those of
        these ranges that are available.
        """
        at = max(bisect_right(self._firsts, first) - 2, 0)
        end = min(bisect_right(self._firsts, last, lo=at) + 1, len(self._ranges))
        if at == end:
            return
        begin = bisect_left(self._available, self._firsts[at])
        until = bisect_right(self._available, self._firsts[end - 1], lo=begin)
        merged: list[InFlightRange] = []
        for records in self._ranges[at:end]:
            if merged and records.continues(merged[-1]):
                merged[-1].last = records.last
            else:
                merged.append(records)
        self._available[begin:until] = [records.first for records in merged if records.is_available]
        if len(merged) < end - at:
            self._ranges[at:end] = merged
            self._firsts[at:end] = [records.first for records in merged]

    def _insert(self, at: int, records: InFlightRange) -> None:
        self._ranges.insert(at, records)
        self._firsts.insert(at, records.first)
        if records.is_available:
            insort(self._available, records.first)

    def _remove_leading(self, count: int) -> None:
        self.complete_count -= sum(len(each) for each in self._ranges[:count] if each.state in FINAL_STATES)
        del self._ranges[:count]
        del self._firsts[:count]
        del self._available[: bisect_left(self._available, self._firsts[0]) if self._firsts else None]

    def _split_before(self, offset: int) -> None:
        at = bisect_right(self._firsts, offset - 1) - 1
        if at >= 0 and self._ranges[at].last >= offset:
            self._insert(at + 1, self._ranges[at].split_before(offset))
