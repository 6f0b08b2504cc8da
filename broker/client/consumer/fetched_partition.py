"""Fetched bytes that wait for the consumer's next polls.

They stay encoded until they are taken: as records (`read` and `advance`), or in bulk by a caller that decodes them
otherwise (`encoded`, `offset`, `aborted` and `advance_to`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from broker.client.consumer.positions import AssignedPartition, Position
from broker.client.records import decode_records
from broker.client.types import ConsumerRecord, TopicPartition
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.records import HEADER_SIZE, LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH
from broker.wire.schema import Buffer

# As many bytes of whole batches, or one batch that is larger, are decoded at a time: some milliseconds of work.
SLICE_BYTES: Final = 256 << 10

_MAGIC: Final = 2
# Base offset, length, leader epoch and magic of a batch, and its last offset delta.
_BATCH: Final = Struct(">qiib6xi")


class Slice(NamedTuple):
    """Whole batches in a row. `end` is the position after them."""

    start: int
    stop: int
    end: Position


class BatchPlace(NamedTuple):
    """Where a whole batch is in a buffer, its first offset, and the position after it."""

    start: int
    stop: int
    base_offset: int
    end: Position


def whole_batches(buffer: Buffer) -> Iterator[BatchPlace]:
    """The whole batches in a response's records, up to the first that cannot be one."""
    at = 0
    reached = -1
    size = len(buffer)
    while size - at >= HEADER_SIZE:
        base_offset, length, epoch, magic, last_delta = _BATCH.unpack_from(buffer, at)
        following = at + LOG_OVERHEAD + length
        next_offset = base_offset + last_delta + 1
        if magic != _MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or next_offset <= reached or following > size:
            return
        end = Position(next_offset, None if epoch == NO_PARTITION_LEADER_EPOCH else epoch)
        yield BatchPlace(at, following, base_offset, end)
        at, reached = following, next_offset


def slices_of(buffer: Buffer) -> list[Slice]:
    """The whole batches in a response's records, up to the first that cannot be one, in slices."""
    slices = []
    start = stop = 0
    end = Position(-1)
    for _, stop, _, end in whole_batches(buffer):
        if stop - start >= SLICE_BYTES:
            slices.append(Slice(start, stop, end))
            start = stop
    if stop > start:
        slices.append(Slice(start, stop, end))
    return slices


class FetchedPartition:
    """One partition's part of a Fetch response, from `offset` on; `offset` moves as records are taken.

    `records` holds at least one whole batch. `aborted` are the aborted transactions in it, where they matter.
    """

    __slots__ = (
        "_decoded",
        "_decoded_to",
        "_position",
        "_records",
        "_slices",
        "_taken",
        "aborted",
        "assigned",
        "generation",
        "node_id",
        "size",
    )

    def __init__(
        self,
        assigned: AssignedPartition,
        node_id: int,
        position: Position,
        records: Buffer,
        slices: Sequence[Slice],
        aborted: Sequence[AbortedTransaction],
    ) -> None:
        assert slices, "there is a whole batch"
        self.assigned = assigned
        self.generation = assigned.generation
        self.node_id = node_id
        self.size = len(records)
        # Whether a batch is of an aborted transaction depends on the batches before it.
        self._slices = deque([Slice(slices[0].start, slices[-1].stop, slices[-1].end)] if aborted else slices)
        self.aborted = aborted
        self._records = memoryview(records)
        self._position = position
        self._decoded: list[ConsumerRecord] = []
        self._taken = 0
        self._decoded_to = position.offset

    @property
    def position(self) -> Position:
        """That of the next record to take."""
        return self._position

    @property
    def is_stale(self) -> bool:
        """True if the consumer has moved elsewhere since this was asked for."""
        return self.generation != self.assigned.generation

    @property
    def is_exhausted(self) -> bool:
        return not self._slices

    @property
    def encoded(self) -> memoryview:
        """The batches from the one with the next record on; records before `position` are to be skipped in it."""
        return self._records[self._slices[0].start : self._slices[-1].stop]

    @property
    def end(self) -> Position:
        """The position after all batches."""
        return self._slices[-1].end if self._slices else self._position

    def read(self, limit: int, *, read_committed: bool, check_crc: bool) -> list[ConsumerRecord]:
        """The next records, at most `limit`, without taking them; none only where there are none left.

        Passes over batches without records. Raises WireError where the batch at `position` is damaged.
        """
        while self._taken == len(self._decoded) and self._slices:
            self._decode(read_committed, check_crc)
        return self._decoded[self._taken : self._taken + limit]

    def advance(self, count: int) -> None:
        """Takes so many of the records that `read` returned."""
        self._taken += count
        if self._taken < len(self._decoded):
            if count:
                self._move_after(self._decoded[self._taken - 1])
        else:
            self._finish_decoded()

    def advance_to(self, position: Position) -> None:
        """Takes everything before `position`, which was decoded elsewhere."""
        self._decoded, self._taken = [], 0
        self._decoded_to = position.offset
        self._position = position
        while self._slices and self._slices[0].end.offset <= position.offset:
            self._slices.popleft()

    def _decode(self, read_committed: bool, check_crc: bool) -> None:
        current = self._slices[0]
        topic, partition = self.assigned.partition
        self._decoded, self._decoded_to = decode_records(
            self._records[current.start : current.stop],
            topic,
            partition,
            from_offset=self._position.offset,
            aborted=self.aborted,
            read_committed=read_committed,
            check_crc=check_crc,
        )
        self._taken = 0
        if not self._decoded:
            self._finish_decoded()

    def _finish_decoded(self) -> None:
        """Moves on after the last decoded record was taken: the rest of the slice is decoded next."""
        if self._decoded:
            self._move_after(self._decoded[-1])
        if self._slices and self._decoded_to >= self._slices[0].end.offset:
            self._position = max(self._position, self._slices.popleft().end, key=_offset_of)
        elif self._decoded_to > self._position.offset:
            self._position = self._position._replace(offset=self._decoded_to)
        self._decoded, self._taken = [], 0

    def _move_after(self, record: ConsumerRecord) -> None:
        """Moves the position after this record. It never goes back, even if offsets are not in order."""
        if record.offset >= self._position.offset:
            self._position = Position(record.offset + 1, record.leader_epoch)


def _offset_of(position: Position) -> int:
    return position.offset


class FetchBuffer:
    """Fetched data that no poll has taken yet, by partition. After the data of one response, the next partition's turn
    comes.
    """

    def __init__(self) -> None:
        self._queues: dict[TopicPartition, deque[FetchedPartition]] = {}
        self._sizes: dict[int, int] = {}

    @property
    def size(self) -> int:
        """The size of all data in bytes."""
        return sum(self._sizes.values())

    def size_from(self, node_id: int) -> int:
        """The size of one broker's data in bytes."""
        return self._sizes.get(node_id, 0)

    def holds(self, partition: TopicPartition) -> bool:
        """True if the buffer has data of the partition that is not stale."""
        return any(not fetched.is_stale for fetched in self._queues.get(partition, ()))

    def add(self, fetched: FetchedPartition) -> None:
        self._queues.setdefault(fetched.assigned.partition, deque()).append(fetched)
        self._sizes[fetched.node_id] = self._sizes.get(fetched.node_id, 0) + fetched.size

    def first(self) -> FetchedPartition | None:
        """The next data to read, of a partition whose records may be returned. Drops stale data."""
        for partition, queue in list(self._queues.items()):
            while queue and (queue[0].is_stale or queue[0].is_exhausted):
                self._drop_first(partition)
            if queue and queue[0].assigned.is_returnable:
                return queue[0]
        return None

    def finish(self, fetched: FetchedPartition) -> None:
        """Drops data that was read completely; its partition's next turn comes after the others'."""
        partition = fetched.assigned.partition
        queue = self._queues.get(partition)
        if queue and queue[0] is fetched:
            self._drop_first(partition)
            if rest := self._queues.pop(partition, None):
                self._queues[partition] = rest

    def drop_stale(self) -> None:
        for partition, queue in list(self._queues.items()):
            while queue and queue[0].is_stale:
                self._drop_first(partition)

    def drop_paused(self) -> list[AssignedPartition]:
        """Drops the data of paused partitions to make room. Returns these partitions; the caller rewinds them."""
        paused = [assigned for assigned in self._first_ones() if assigned.is_paused]
        for assigned in paused:
            while assigned.partition in self._queues:
                self._drop_first(assigned.partition)
        return paused

    def _first_ones(self) -> Iterator[AssignedPartition]:
        for queue in list(self._queues.values()):
            yield queue[0].assigned

    def _drop_first(self, partition: TopicPartition) -> None:
        queue = self._queues[partition]
        fetched = queue.popleft()
        self._sizes[fetched.node_id] -= fetched.size
        if not queue:
            del self._queues[partition]
