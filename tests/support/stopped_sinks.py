"""The data source with an exactly-once sink that stops where a test wants it to: in a commit, or at the end of a task.

Each stop leaves a file in the directory that the option `stops` names. The option `stopsAt` is one of the constants.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from broker.spark.options.write_options import WriteOptions
from broker.spark.sink.decisions import Batch, RowsPrepared, TaskTransaction
from broker.spark.sink.driver import SinkDriver
from broker.spark.sink.writers import ExactlyOnceStreamWriter
from broker.spark.source import KraftDataSource

# The first commit of a batch stops between the decision and the end of the batch's transactions, until SIGCONT.
COMMITS: Final = "commits"
# The first attempt of a batch's first task stops for a while, when its transaction is prepared.
TASKS: Final = "tasks"
_SLOW_TASK_S: Final = 15.0


class StoppedSink(KraftDataSource):
    """Its streaming writer is the product's, with a stop in `commit` or after `write`."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        options = WriteOptions.of(self.options, is_streaming=True)
        assert options.exactly_once is not None
        stops = Path(self.options["stops"])
        if self.options["stopsat"] == COMMITS:
            return _StoppedCommits(options, options.exactly_once, schema, stops)
        return _StoppedTasks(options, options.exactly_once, schema, stops)


class _StoppedWriter(ExactlyOnceStreamWriter):
    def __init__(self, options: Any, exactly_once: Any, schema: StructType, stops: Path) -> None:
        super().__init__(options, exactly_once, schema)
        self._stops = stops


class _StoppedTasks(_StoppedWriter):
    def write(self, iterator: Iterator[Any]) -> RowsPrepared:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if message.transaction is not None:
            number, attempt = context.partitionId(), context.attemptNumber()
            (self._stops / f"{message.batch.batch_id}-{number}-{attempt}").touch()
            if number == attempt == 0:
                time.sleep(_SLOW_TASK_S)
        return message


class _StoppedCommits(_StoppedWriter):
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        stopped = _stopped(SinkDriver._commit_transactions, self._stops)
        with patch.object(SinkDriver, "_commit_transactions", stopped):
            super().commit(messages, batchId)


def _stopped(commit: Callable[..., None], stops: Path) -> Callable[..., None]:
    """Stops the first time that it is called for a batch, after a part of its transactions, which may be none."""

    def stop_or_commit(driver: SinkDriver, batch: Batch, transactions: Sequence[TaskTransaction]) -> None:
        stop = stops / str(batch.batch_id)
        if transactions and not stop.exists():
            ended = transactions[: batch.batch_id % len(transactions)]
            driver._admin.end_transactions(dict(ended), is_commit=True).raise_first()
            stop.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        commit(driver, batch, transactions)

    return stop_or_commit
