"""Reads the acquired records of one partition in a ShareFetch response. Pure.

The response has whole batches, and ranges of offsets in them that the consumer has acquired, each with the count of its
deliveries. A range is read as a whole: the leader keeps the state of a batch in one piece as long as its records are
acknowledged together.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import attrs

from broker.client.consumer.fetched_partition import slices_of, whole_batches
from broker.client.records import decode_records
from broker.client.share_consumer.acknowledgements import Source
from broker.client.types import ConsumerRecord
from broker.wire.api.share_fetch import AcquiredRecords
from broker.wire.errors import WireError
from broker.wire.schema import Buffer
from metadata.protocol import AcknowledgeType


@attrs.frozen(eq=False)
class Unreadable:
    """Acquired offsets whose records cannot be read, and the outcome that they get."""

    first: int
    last: int
    outcome: AcknowledgeType
    error: WireError


@attrs.frozen(eq=False)
class AcquiredRange:
    """Acquired offsets from `first` to `last`: their records, the gaps between these, or that they cannot be read."""

    first: int
    last: int
    delivery_count: int
    records: Sequence[ConsumerRecord]
    unreadable: Unreadable | None = None

    def gaps(self) -> Iterator[tuple[int, int]]:
        """The ranges of offsets at which there is no record: control records, or what compaction has removed."""
        if self.unreadable is not None:
            return
        following = self.first
        for record in self.records:
            if record.offset > following:
                yield following, record.offset - 1
            following = record.offset + 1
        if following <= self.last:
            yield following, self.last


class AcquiredPartition:
    """See the module's docstring. The locks have ended by `lock_ends`."""

    def __init__(
        self, source: Source, records: Buffer, acquired: Sequence[AcquiredRecords], lock_ends: float, *, check_crc: bool
    ) -> None:
        """Raises WireError unless the acquired ranges are in the order of offsets."""
        following = 0
        for each in acquired:
            if not following <= each.first_offset <= each.last_offset:
                raise WireError(
                    f"the acquired range {each.first_offset}-{each.last_offset} of {source.partition} is none"
                )
            following = each.last_offset + 1
        self.source = source
        self.lock_ends = lock_ends
        self._check_crc = check_crc
        self._records = memoryview(records)
        self._slices = deque(slices_of(records))
        self._is_whole = len(records) == (self._slices[-1].stop if self._slices else 0)
        self._ranges = deque((each.first_offset, each.last_offset, each.delivery_count) for each in acquired)
        self._decoded: deque[ConsumerRecord] = deque()
        # The last offset of the last damaged batch, which several acquired ranges may share, and what is wrong with it.
        self._damage: tuple[int, WireError] | None = None
        # All batches before this offset are decoded, or not needed.
        self._reached = 0

    @property
    def is_exhausted(self) -> bool:
        return not self._ranges

    def read(self) -> AcquiredRange:
        """The next acquired range, or the part of it before or within a damaged batch."""
        first, last, count = self._ranges.popleft()
        if self._damage is not None and first <= self._damage[0]:
            return self._reject(first, last, count, *self._damage)
        if first > self._reached:
            self._skip_to(first)
        try:
            self._decode(last)
        except WireError as error:
            return self._read_to_damage(first, last, count, error)
        if self._reached <= last and not self._is_whole and not self._slices:
            return self._read_to_end(first, last, count)
        return AcquiredRange(first, last, count, self._take(first, last))

    def _decode(self, until: int) -> None:
        """Decodes the batches with offsets up to `until`. Raises WireError at a damaged one."""
        topic, partition = self.source.partition
        while self._slices and self._reached <= until:
            piece = self._slices[0]
            records, reached = decode_records(
                self._records[piece.start : piece.stop],
                topic,
                partition,
                from_offset=self._reached,
                check_crc=self._check_crc,
            )
            self._decoded.extend(records)
            self._reached = reached
            if reached >= piece.end.offset:
                self._slices.popleft()

    def _take(self, first: int, last: int) -> list[ConsumerRecord]:
        """The decoded records of a range, by rising offsets. Records before it were not acquired."""
        taken = []
        following = first
        while self._decoded and self._decoded[0].offset <= last:
            record = self._decoded.popleft()
            if record.offset >= following:
                taken.append(record)
                following = record.offset + 1
        return taken

    def _read_to_damage(self, first: int, last: int, count: int, error: WireError) -> AcquiredRange:
        begin, end = self._damaged_batch()
        if first < begin:
            # The records before the damaged batch first: it is found again by the next read.
            stop = min(begin - 1, last)
            if stop < last:
                self._ranges.appendleft((begin, last, count))
            return AcquiredRange(first, stop, count, self._take(first, stop))
        self._skip_to(end + 1)
        self._damage = end, error
        return self._reject(first, last, count, end, error)

    def _reject(self, first: int, last: int, count: int, end: int, error: WireError) -> AcquiredRange:
        """Rejects the part of a range that is in the damaged batch, which ends with offset `end`."""
        if end < last:
            self._ranges.appendleft((end + 1, last, count))
        stop = min(end, last)
        return AcquiredRange(first, stop, count, (), Unreadable(first, stop, AcknowledgeType.REJECT, error))

    def _read_to_end(self, first: int, last: int, count: int) -> AcquiredRange:
        """Reads a range whose end is missing, because the response's last bytes are no whole batch."""
        if first < self._reached:
            self._ranges.appendleft((self._reached, last, count))
            stop = self._reached - 1
            return AcquiredRange(first, stop, count, self._take(first, stop))
        error = WireError("the broker sent bytes in which there is no whole batch with this offset")
        return AcquiredRange(first, last, count, (), Unreadable(first, last, AcknowledgeType.RELEASE, error))

    def _damaged_batch(self) -> tuple[int, int]:
        """The first and the last offset of the batch that cannot be decoded: the first one not before `_reached`."""
        piece = self._slices[0]
        for batch in whole_batches(self._records[piece.start : piece.stop]):
            if batch.end.offset > self._reached:
                return max(batch.base_offset, self._reached), batch.end.offset - 1
        raise AssertionError("a slice that is not decoded has a batch that is not")

    def _skip_to(self, offset: int) -> None:
        """Drops the batches before an offset: what is wrong with them does not matter."""
        self._reached = offset
        while self._slices and self._slices[0].end.offset <= offset:
            self._slices.popleft()
        if not self._slices:
            return
        piece = self._slices[0]
        for batch in whole_batches(self._records[piece.start : piece.stop]):
            if batch.end.offset > offset:
                self._slices[0] = piece._replace(start=piece.start + batch.start)
                return
