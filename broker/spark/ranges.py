"""Ranges of offsets, one for each task, and how large ones are split."""

import math
from collections.abc import Iterable, Iterator, Sequence

import attrs

from broker.client import TopicPartition


@attrs.frozen
class OffsetRange:
    """The offsets of one partition from `start` up to, and without, `end`. Tasks get it pickled.

    `topic_id` has 16 bytes: a topic that is deleted and created again under the same name has another one.
    """

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets, of which some may have no record: compaction and transactions leave gaps."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """The ranges in as many parts as Spark's Kafka connector makes of them; empty ones are left out.

    `max_records` (maxRecordsPerPartition) bounds the offsets of a part. `min_partitions` (minPartitions) is about how
    many parts there are in all, if there would be fewer: large ranges are split in proportion to their sizes.
    """
    parts = [each for each in ranges if each.size > 0]
    if max_records is not None:
        parts = [part for each in parts for part in _divide(each, math.ceil(each.size / max_records))]
    if min_partitions is not None and len(parts) < min_partitions:
        parts = _split_in_proportion(parts, min_partitions)
    return parts


def _split_in_proportion(ranges: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Splits large ranges in proportion to their sizes. The proportion leaves out ranges that are too small."""
    total = sum(each.size for each in ranges)
    small = [each for each in ranges if _part_count(each.size, total, min_partitions) == 1]
    whole = {each.topic_partition for each in small}
    left = total - sum(each.size for each in small)
    parts_left = max(min_partitions - len(small), 1)
    return [
        part
        for each in ranges
        for part in _divide(each, 1 if each.topic_partition in whole else _part_count(each.size, left, parts_left))
    ]


def _part_count(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _divide(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """Divides a range into `count` parts of about equal size, or fewer if there are fewer offsets."""
    start = whole.start
    for index in range(count):
        size = (whole.end - start) // (count - index)
        if size:
            yield attrs.evolve(whole, start=start, end=start + size)
            start += size
