"""The sinks that Spark calls: of a batch query, and of a streaming one.

A write has two parts. `write` runs in a task and returns a message; `commit` or `abort` runs on the driver, with the
messages of all tasks. Without the option exactlyOnce, sinks write at least once: `write` returns when the brokers have
acknowledged the rows, so that the driver has nothing left to decide, and a task that Spark repeats writes its rows
again. With it, `write` leaves a transaction open and names it in the message, and `commit` decides by the batch's id.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from broker.spark.clients import PRODUCERS
from broker.spark.options import IllegalOption, log_remarks
from broker.spark.options.write_options import ExactlyOnce, WriteOptions
from broker.spark.sink.columns import SinkColumns
from broker.spark.sink.decisions import RowsPrepared
from broker.spark.sink.driver import abort_batch, commit_batch
from broker.spark.sink.prepared_task import write_prepared
from broker.spark.sink.task import write_batches
from broker.spark.task_attempts import settings_of_attempt


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
        log_remarks(options.remarks)

    def write(self, iterator: Iterator[Any]) -> RowsWritten:
        return _write(iterator, self._columns, self._options)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch to topics in transactions, all of which the driver commits or aborts."""

    def __init__(self, options: WriteOptions, exactly_once: ExactlyOnce, schema: StructType) -> None:
        """Checks the query's columns. Raises IllegalColumns."""
        self._options = options
        self._exactly_once = exactly_once
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[Any]) -> RowsPrepared:
        return write_prepared(iterator, self._columns, self._options, self._exactly_once)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commits the batch. Spark calls it again for a batch that it repeats."""
        _log_remarks(self._options, batchId)
        commit_batch(self._options, self._exactly_once, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Aborts the batch, unless it is decided. Spark also calls it after a commit that failed."""
        abort_batch(self._options, self._exactly_once, messages, batchId)


class KraftStreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch to topics, in the output modes append and complete."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Checks the query's columns. Raises IllegalColumns."""
        self._options = options
        self._columns = SinkColumns.of(schema, options.topic)

    def write(self, iterator: Iterator[Any]) -> RowsWritten:
        return _write(iterator, self._columns, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Has nothing to commit: the rows are written. Spark calls it again for a batch that it repeats."""
        _log_remarks(self._options, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: what was written stays, and is written again when Spark repeats the batch."""


def _log_remarks(options: WriteOptions, batch_id: int) -> None:
    """Logs the remarks with the first batch of a query: Spark makes the writer again for each batch."""
    if batch_id == 0:
        log_remarks(options.remarks)


def _write(iterator: Iterator[Any], columns: SinkColumns, options: WriteOptions) -> RowsWritten:
    with PRODUCERS.lend(settings_of_attempt(options.client_config)) as producer:
        return RowsWritten(write_batches(iterator, columns, producer))
