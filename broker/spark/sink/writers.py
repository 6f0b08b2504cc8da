"""The sinks that Spark calls: of a batch query, and of a streaming one.

A write has two parts. `write` runs in a task and returns a message; `commit` or `abort` runs on the driver, with the
messages of all tasks. These sinks write at least once: `write` returns when the brokers have acknowledged the rows, so
that the driver has nothing left to decide, and a task that Spark repeats writes its rows again. A sink that writes
exactly once prepares a transaction in `write`, names it in the message, and decides by batch id in `commit`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from broker.spark.clients import PRODUCERS
from broker.spark.options import IllegalOption
from broker.spark.options.write_options import WriteOptions
from broker.spark.sink.columns import SinkColumns
from broker.spark.sink.task import write_batches


@attrs.frozen
class RowsWritten(WriterCommitMessage):
    """The message of a task: how many rows the brokers have acknowledged."""

    rows: int


class KraftBatchWriter(DataSourceArrowWriter):
    """Appends the rows of a batch query to topics."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Checks the mode and the query's columns. Raises IllegalOption for mode("overwrite"), and IllegalColumns."""
        if overwrite:
            raise IllegalOption("Save mode Overwrite not allowed for Kafka. Records can only be appended to a topic.")
        self._options = options
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[Any]) -> RowsWritten:
        return _write(iterator, self._columns, self._options)


class KraftStreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch to topics, in the output modes append and complete."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Checks the query's columns. Raises IllegalColumns."""
        self._options = options
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[Any]) -> RowsWritten:
        return _write(iterator, self._columns, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: the rows are written. Spark calls it again for a batch that it repeats."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: what was written stays, and is written again when Spark repeats the batch."""


def _write(iterator: Iterator[Any], columns: SinkColumns, options: WriteOptions) -> RowsWritten:
    with PRODUCERS.lend(options.client_config) as producer:
        return RowsWritten(write_batches(iterator, columns, producer))
