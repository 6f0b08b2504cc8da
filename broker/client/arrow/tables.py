"""Tables of records to write: their rows by topic, some tens of thousands at a time."""

from collections.abc import Iterator
from typing import Any, Final

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.libraries import np, pa, pc

# So many rows are prepared at a time: some ten milliseconds of work, in which nothing else of the event loop runs.
_ROWS_MAX: Final = 65_536
_NO_PARTITION: Final = -1


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
