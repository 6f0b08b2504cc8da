"""What a follower demands of the batches that its leader has sent, before it writes them as they are.

The leader has validated them; what is checked is that they came through whole, and that they follow.
"""

from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import BatchHeader, CorruptBatch, check_crc, iter_headers


class UnexpectedGap(KafkaError):
    """CORRUPT_MESSAGE: `base_offset` is behind a gap, where there should be none."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)
        self.base_offset = base_offset


def fetched_batches(
    records: memoryview, *, end_offset: int, leader_epoch: int, allows_gaps: bool, partition: str
) -> list[tuple[memoryview, BatchHeader]]:
    """The whole batches among `records` with their headers, for a log that ends at `end_offset`.

    A batch that the response's limit has cut off at the end is left out, and so is all from the first batch on that is
    of a later epoch than `leader_epoch`: an answer of the epoch that was asked for holds none, unless the one who
    answered has become a follower in the meantime, and the bytes of its file are not those it had promised.

    `allows_gaps`: compaction leaves gaps between offsets. The first batch may begin before `end_offset`, if it ends
    behind it; whether that is right is the caller's to decide. Raises KafkaError CORRUPT_MESSAGE, with UnexpectedGap.
    """
    batches: list[tuple[memoryview, BatchHeader]] = []
    following = end_offset
    try:
        for position, header in iter_headers(records):
            if header.partition_leader_epoch > leader_epoch:
                break
            if not _follows(header, following, is_first=not batches):
                raise CorruptBatch(f"a batch with base offset {header.base_offset} cannot follow at {following}")
            if header.base_offset > following and not allows_gaps:
                message = f"Fetched for {partition}: offsets {following} to {header.base_offset - 1} are missing"
                raise UnexpectedGap(message, header.base_offset)
            check_crc(records, position, header)
            batches.append((records[position : position + header.size], header))
            following = header.next_offset
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Fetched for {partition}: {error}") from error
    return batches


def _follows(header: BatchHeader, following: int, *, is_first: bool) -> bool:
    if header.last_offset_delta < 0 or header.count > header.last_offset_delta + 1:
        return False
    if header.base_offset >= following:
        return True
    return is_first and header.last_offset >= following
