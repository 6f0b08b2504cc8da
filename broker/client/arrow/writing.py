"""Turns the rows of a table into complete batches by partition, and reports the offsets at which they were written."""

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import pairwise
from typing import Any, Final

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.key_hashes import hash_keys
from broker.client.arrow.libraries import np, pa, pc
from broker.client.arrow.records import ArrowRecords
from broker.client.producer.batch import NO_OFFSET, Batch
from broker.client.producer.buffer_memory import RecordTooLarge
from broker.client.producer.record_arguments import BadPartition
from broker.client.producer.routing import TopicRouting
from broker.client.types import TopicPartition

# So many rows are prepared at a time: some ten milliseconds of work, in which nothing else of the event loop runs.
_ROWS_MAX: Final = 65_536
_NO_PARTITION: Final = -1
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


def rows_by_topic(table: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows as RecordBatches, each with its topic: `topic`, or where that is None the column `topic` says it.

    Raises TypeError for what is no table, ValueError where a row has no topic.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"records must be a pyarrow Table or RecordBatch, not {type(table).__name__}")
    if topic is None and "topic" not in table.schema.names:
        raise ValueError("no topic: pass one, or a table with a column `topic`")
    batches = table.to_batches(max_chunksize=_ROWS_MAX)
    if len(batches) > 2 * table.num_rows // _ROWS_MAX + 1:
        batches = table.combine_chunks().to_batches(max_chunksize=_ROWS_MAX)
    for rows in batches:
        if topic is None:
            yield from _split_by_topic(rows)
        elif rows.num_rows:
            yield topic, rows


def _split_by_topic(rows: Any) -> Iterator[tuple[str, Any]]:
    names = rows.column("topic")
    if names.null_count:
        raise ValueError("a row has no topic: its column `topic` is null")
    found = pc.unique(names).to_pylist()
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"the column topic is string, not {names.type}")
        yield name, rows if len(found) == 1 else rows.filter(pc.equal(names, pa.scalar(name, names.type)))


def given_partitions(rows: Any) -> Int64s:
    """The column `partition`; -1 where it is null, or missing, which leaves the choice to the producer.

    Raises TypeError for a column of another type, ValueError for a negative number.
    """
    if "partition" not in rows.schema.names or pa.types.is_null(rows.column("partition").type):
        return np.full(len(rows), _NO_PARTITION, np.int64)
    column = rows.column("partition")
    if not pa.types.is_integer(column.type):
        raise TypeError(f"the column partition is a number, not {column.type}")
    if column.null_count < len(column) and (least := pc.min(column).as_py()) < 0:
        raise ValueError(f"a partition is a number from 0, or null for the producer's choice, not {least}")
    partitions: Int64s = column.cast(pa.int64()).fill_null(_NO_PARTITION).to_numpy(zero_copy_only=False)
    return partitions
