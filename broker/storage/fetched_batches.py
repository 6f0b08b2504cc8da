"""The checks that a follower makes on batches fetched from its leader, before it appends them unchanged.

The leader has validated the records. The follower checks that each batch arrived whole and continues its own log.
"""

from functools import partial

from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import BatchHeader, CorruptBatch, check_crc, iter_headers


class UnexpectedGap(KafkaError):
    """CORRUPT_MESSAGE: offsets are missing before `base_offset` in a log that has no gaps."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)
        self.base_offset = base_offset


class FetchedBatches:
    """Splits what a leader sends for one partition into batches. `partition` ("topic-0") is for messages.

    A log whose topic was compacted only in the past may still have gaps, and the follower cannot know that. It refuses
    a gap the first time. If the next fetch brings the same gap, the gap is in the leader's log: damage on the way
    would not occur twice at the same offset.
    """

    __slots__ = ("_gap_seen_at", "partition")

    def __init__(self, partition: str) -> None:
        self.partition = partition
        self._gap_seen_at = -1

    def split(
        self, records: memoryview, *, end_offset: int, leader_epoch: int, allows_gaps: bool
    ) -> list[tuple[memoryview, BatchHeader]]:
        """The batches to append to a log that ends at `end_offset`, with their headers; see `fetched_batches`."""
        check = partial(
            fetched_batches, records, end_offset=end_offset, leader_epoch=leader_epoch, partition=self.partition
        )
        try:
            return check(allows_gaps=allows_gaps)
        except UnexpectedGap as gap:
            if self._gap_seen_at != gap.base_offset:
                self._gap_seen_at = gap.base_offset
                raise
            return check(allows_gaps=True)


def fetched_batches(
    records: memoryview, *, end_offset: int, leader_epoch: int, allows_gaps: bool, partition: str
) -> list[tuple[memoryview, BatchHeader]]:
    """The whole batches among `records` with their headers, for a log that ends at `end_offset`.

    A batch that the response's size limit cut off is left out. So is everything from the first batch of an epoch later
    than `leader_epoch`. A leader of that epoch sends no such batch; but it may have become a follower while the
    response was on its way, and truncated its file meanwhile.

    `allows_gaps` permits gaps between offsets, which compaction leaves. The first batch may begin before `end_offset`
    if it ends after it; the caller decides whether that is valid. Raises KafkaError CORRUPT_MESSAGE, or UnexpectedGap.
    """
    batches: list[tuple[memoryview, BatchHeader]] = []
    next_offset = end_offset
    try:
        for position, header in iter_headers(records):
            if header.partition_leader_epoch > leader_epoch:
                break
            if not _follows(header, next_offset, is_first=not batches):
                raise CorruptBatch(f"a batch with base offset {header.base_offset} cannot follow at {next_offset}")
            if header.base_offset > next_offset and not allows_gaps:
                message = f"Fetched for {partition}: offsets {next_offset} to {header.base_offset - 1} are missing"
                raise UnexpectedGap(message, header.base_offset)
            check_crc(records, position, header)
            batches.append((records[position : position + header.size], header))
            next_offset = header.next_offset
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Fetched for {partition}: {error}") from error
    return batches


def _follows(header: BatchHeader, next_offset: int, *, is_first: bool) -> bool:
    if not 0 <= header.count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        return False
    if header.base_offset >= next_offset:
        return True
    return is_first and header.last_offset >= next_offset
