"""One task of a sink: writes its rows to the brokers, batch after batch."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa

from broker.client import SyncProducer
from broker.spark.sink.columns import SinkColumns

# Spark hands over some thousand rows at a time. They are brought together, so that the batches of every partition are
# large, up to a size that the producer's buffer holds several times.
_TABLE_BYTES: Final = 4 << 20


def write_batches(batches: Iterator[Any], columns: SinkColumns, producer: SyncProducer) -> int:
    """Writes pyarrow RecordBatches, and returns how many rows they had, when the brokers have acknowledged all of them.

    Rows of a partition are written in their order. While the brokers work on some rows, the next ones are taken from
    Spark. Raises what `SyncProducer.produce_arrow` raises, and what the iterator does; some rows may be written then,
    and none is under way any more: the producer is closed.
    """
    rows = 0
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="kraft-sink") as writing:
        try:
            previous: Future[Any] | None = None
            for table in _tables(batches, columns):
                if previous is not None:
                    previous.result()
                previous = writing.submit(producer.produce_arrow, columns.topic, table)
                rows += table.num_rows
            if previous is not None:
                previous.result()
        except BaseException:
            # The thread would otherwise wait for delivery.timeout.ms where the brokers do not answer.
            producer.close(timeout_s=0)
            raise
    return rows


def _tables(batches: Iterator[Any], columns: SinkColumns) -> Iterator[Any]:
    """The rows as tables of about `_TABLE_BYTES`."""
    parts: list[Any] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        parts.append(columns.select(batch))
        size += parts[-1].nbytes
        if size >= _TABLE_BYTES:
            yield pa.Table.from_batches(parts)
            parts, size = [], 0
    if parts:
        yield pa.Table.from_batches(parts)
