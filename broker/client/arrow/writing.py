"""Turns the rows of a table into complete batches by partition, and reports the offsets at which they were written."""

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import pairwise
from typing import Any, Final

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.key_hashes import hash_keys
from broker.client.arrow.libraries import np
from broker.client.arrow.records import ArrowRecords
from broker.client.arrow.tables import given_partitions
from broker.client.producer.batch import NO_OFFSET, Batch
from broker.client.producer.buffer_memory import RecordTooLarge
from broker.client.producer.record_arguments import BadPartition
from broker.client.producer.routing import TopicRouting
from broker.client.types import TopicPartition

# The least size that batches are given, as far as requests allow it: in small ones the work per array would show.
BATCH_BYTES: Final = 1 << 20


def complete_batches(
    rows: Any, routing: TopicRouting, now_ms: int, *, batch_bytes: int, record_bytes_max: int
) -> list[tuple[int, ArrowRecords, int]]:
    """The rows of one topic as complete batches: the partition, its records, and at most how many bytes they take.

    A batch takes up to `batch_bytes`, more if it is a single record. Rows of a partition keep their order. Raises
    TypeError and ValueError as `ArrowRecords` and `given_partitions` do, RecordTooLarge, BadPartition, and what a
    custom partitioner raises.
    """
    records = ArrowRecords.of(rows, now_ms)
    sizes = records.sizes()
    if (largest := int(sizes.max())) > record_bytes_max:
        raise RecordTooLarge(
            f"a record of up to {largest} bytes for {routing.topic} is larger than max.request.size or buffer.memory"
            f" allows, which is {record_bytes_max}"
        )
    partitions = _choose_partitions(given_partitions(rows), records, sizes, routing, batch_bytes)
    runs = _runs(partitions)
    if len(runs) > 1 and int(sizes.sum()) < len(runs) * batch_bytes // 2:
        # Short runs would make small batches: the rows are brought together by partition, which copies them.
        order = np.argsort(partitions, kind="stable")
        records, sizes, partitions = records.take(order), sizes[order], partitions[order]
        runs = _runs(partitions)
    batches = []
    for start, stop in runs:
        for first, end in _cuts(np.cumsum(sizes[start:stop]), batch_bytes):
            chosen = slice(start + first, start + end)
            batches.append((int(partitions[start]), records[chosen], int(sizes[chosen].sum())))
    return batches


def _choose_partitions(
    partitions: Int64s, records: ArrowRecords, sizes: Int64s, routing: TopicRouting, batch_bytes: int
) -> Int64s:
    """The partition of every row: as given, by the key, or for rows without a key one for about a batch of them."""
    count = len(routing.queues)
    if (greatest := int(partitions.max())) >= count:
        raise BadPartition(f"{routing.topic} has no partition {greatest}, but those from 0 to {count - 1}")
    chosen = partitions.copy()
    choice = routing.choice
    if choice.custom is not None:
        for row in np.flatnonzero(partitions < 0).tolist():
            _, key, value, _ = records[row]
            chosen[row] = routing.apply(choice.custom, key, value)
        return chosen
    if not choice.ignores_keys:
        has_key = (partitions < 0) & records.keys.is_valid().to_numpy(zero_copy_only=False)
        if has_key.any():
            chosen[has_key] = hash_keys(records.keys)[has_key] % count
    without_key = np.flatnonzero(chosen < 0)
    for first, end in _cuts(np.cumsum(sizes[without_key]), batch_bytes):
        chosen[without_key[first:end]] = routing.next_sticky().partition.partition
    return chosen


def _runs(numbers: Int64s) -> list[tuple[int, int]]:
    """The start and the end of each run of equal numbers."""
    return list(pairwise([0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]))


def _cuts(sums: Int64s, size_max: int) -> Iterator[tuple[int, int]]:
    """Cuts items of these cumulated sizes into parts of at most `size_max`. A larger item is a part of its own."""
    start = 0
    while start < len(sums):
        before = int(sums[start - 1]) if start else 0
        end = max(int(np.searchsorted(sums, before + size_max, side="right")), start + 1)
        yield start, end
        start = end


def written_offsets(batches: Iterable[Batch]) -> dict[TopicPartition, list[range]]:
    """The offsets at which the batches' records were written, as far as the leaders have said.

    Raises the reason why a batch was not written.
    """
    offsets: dict[TopicPartition, list[range]] = {}
    for batch in _final(batches):
        if batch.error is not None:
            # Others raise the same error: each of them would add its traceback.
            raise copy(batch.error) from batch.error.__cause__
        ranges = offsets.setdefault(batch.partition, [])
        if batch.base_offset == NO_OFFSET:
            continue
        written = range(batch.base_offset, batch.base_offset + len(batch.records))
        if ranges and ranges[-1].stop == written.start:
            ranges[-1] = range(ranges[-1].start, written.stop)
        else:
            ranges.append(written)
    return offsets


def _final(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches, or those that their records were moved to because they were too large for the leader."""
    for batch in batches:
        if batch.moved is None:
            yield batch
        else:
            yield from _final(dict.fromkeys(part for part, _ in batch.moved))
