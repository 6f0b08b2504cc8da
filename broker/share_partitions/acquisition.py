"""The records that one ShareFetch request may acquire, and has acquired (KIP-932, KIP-1206)."""

from collections.abc import Sequence
from typing import NamedTuple

from broker.net.reply import FileRange
from kraft import lazy_attrs
from metadata.protocol import ShareAcquireMode


class FetchedBatch(NamedTuple):
    """A batch of the log that a read has found. Records of an aborted transaction are not delivered.

    The batch begins `position` bytes after the beginning of the read, and takes `size` bytes.
    """

    first_offset: int
    last_offset: int
    is_aborted: bool = False
    position: int = 0
    size: int = 0


class AcquiredRecords(NamedTuple):
    """The records from `first_offset` to `last_offset`, with the number of their deliveries, this one included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acquisition:
    """The records that a request acquires in one share-partition: at most `records_max`, for the member `member_id`.

    In the mode BATCH_OPTIMIZED, a batch of the log that begins below the limit is acquired as a whole, and records are
    returned in parts of about `batch_size` records, which a consumer acknowledges together. `count` is the number of
    acquired offsets, `is_complete` true when no more may be acquired.
    """

    __slots__ = ("_batch_size", "_is_exact", "_records_max", "_stopped", "acquired", "count", "member_id")

    def __init__(
        self,
        member_id: str,
        records_max: int,
        batch_size: int = 2**31 - 1,
        mode: ShareAcquireMode = ShareAcquireMode.BATCH_OPTIMIZED,
    ) -> None:
        self.member_id = member_id
        self.acquired: list[AcquiredRecords] = []
        self.count = 0
        self._records_max = records_max
        self._batch_size = batch_size
        self._is_exact = mode is ShareAcquireMode.RECORD_LIMIT
        self._stopped = False

    @property
    def is_complete(self) -> bool:
        return self._stopped or self.count >= self._records_max

    @property
    def records_left(self) -> int:
        """How many more records may be acquired; batches that are acquired as a whole may exceed it."""
        return self._records_max - self.count

    def stop(self) -> None:
        """Acquire no more records."""
        self._stopped = True

    def last_of_available(self, first: int, fetched: Sequence[FetchedBatch]) -> int:
        """The last offset to acquire of available records that begin at `first`."""
        last = first + self._records_max - self.count - 1
        if not self._is_exact:
            last = next((batch.last_offset for batch in fetched if batch.last_offset >= last), last)
        return last

    def last_of_new(self, first: int, batch: FetchedBatch, room: int) -> int:
        """The last offset to acquire of a batch from `first` on, if `room` more records may be in flight."""
        if not self._is_exact:
            return batch.last_offset
        return min(batch.last_offset, first + min(self._records_max - self.count, room) - 1)

    def begins_part(self, first: int, part: AcquiredRecords) -> bool:
        """True if records from `first` on belong to a new part after `part`."""
        if self._is_exact:
            return first != part.last_offset + 1
        return first - part.first_offset >= self._batch_size

    def add(self, first: int, last: int, delivery_count: int) -> None:
        """Add a part."""
        self.acquired.append(AcquiredRecords(first, last, delivery_count))
        self.count += last - first + 1

    def extend(self, last: int) -> None:
        """Let the last part end at `last`."""
        part = self.acquired[-1]
        self.acquired[-1] = part._replace(last_offset=last)
        self.count += last - part.last_offset

    def add_or_extend(self, first: int, last: int, delivery_count: int) -> None:
        """Add records to the last part if they continue it with the same delivery count."""
        part = self.acquired[-1] if self.acquired else None
        if part is not None and (part.last_offset + 1, part.delivery_count) == (first, delivery_count):
            self.extend(last)
        else:
            self.add(first, last, delivery_count)


@lazy_attrs.frozen
class Limits:
    """The limits of one fetch from a share-partition: an `Acquisition`, and the bytes of records.

    With `min_one_batch`, a first batch is delivered even if it is larger than `max_bytes`.
    """

    acquisition: Acquisition
    max_bytes: int
    min_one_batch: bool


@lazy_attrs.frozen
class Delivery:
    """Records that were acquired. Without any, others may be acquired at once: unwanted ones have been passed over."""

    acquired: Sequence[AcquiredRecords] = ()
    records: FileRange | None = None
