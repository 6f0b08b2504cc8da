"""The task of an exactly-once sink: writes its rows in a transaction, which it leaves open for the driver."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext

from broker.client import SyncProducer
from broker.spark.options.write_options import ExactlyOnce, WriteOptions
from broker.spark.sink.columns import SinkColumns
from broker.spark.sink.decisions import Batch, RowsPrepared, TaskTransaction, TransactionalIds
from broker.spark.sink.driver import sink_driver
from broker.spark.sink.task import write_batches
from broker.spark.task_attempts import settings_of_attempt

# The local properties that Spark sets for the tasks of a streaming query. A run is a group of jobs.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"


class WorkerTransactions:
    """The transactional ids of this process, which its tasks use again batch after batch.

    An id that a batch has used is free for later batches of the same run: those begin when the batch is complete, so
    that no transaction of the id is needed any more. A run starts with new ids: it may follow a run that was killed
    between the decision and the end of its transactions. No other process has the same ids, so none fences them.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._worker = uuid4().hex[:12]
        self._numbers = 0
        self._last: dict[tuple[TransactionalIds, str], list[tuple[int, str]]] = {}

    @contextmanager
    def lend(self, ids: TransactionalIds, batch: Batch) -> Iterator[str]:
        """A transactional id for one task of a batch."""
        run = (ids, batch.run_id)
        with self._lock:
            self._last = {known: used for known, used in self._last.items() if known[0] != ids or known == run}
            used = self._last.setdefault(run, [])
            free = [pair for pair in used if pair[0] < batch.batch_id]
            if free:
                used.remove(free[0])
                transactional_id = free[0][1]
            else:
                self._numbers += 1
                transactional_id = ids.of_task(batch.run_id, self._worker, self._numbers)
        try:
            yield transactional_id
        finally:
            with self._lock:
                used.append((batch.batch_id, transactional_id))

    def has_written_before(self, ids: TransactionalIds, batch: Batch) -> bool:
        """True if a task of an earlier batch of this run was here, so that this batch is no repetition."""
        with self._lock:
            return any(batch_id < batch.batch_id for batch_id, _ in self._last.get((ids, batch.run_id), ()))


WORKER: Final = WorkerTransactions()


def current_batch() -> Batch:
    """The batch of the task that calls this. Raises RuntimeError outside of a streaming query."""
    context = TaskContext.get()
    found = [context and context.getLocalProperty(name) for name in (_QUERY_ID, _RUN_ID, _BATCH_ID)]
    query_id, run_id, batch_id = found
    if not (query_id and run_id and batch_id):
        raise RuntimeError(
            "exactlyOnce needs to know the streaming query and its batch, which Spark did not tell the task: write"
            ' with writeStream.format("kraft"), with a trigger of micro-batches'
        )
    return Batch(query_id, run_id, int(batch_id))


def write_prepared(
    batches: Iterator[Any], columns: SinkColumns, options: WriteOptions, exactly_once: ExactlyOnce
) -> RowsPrepared:
    """Writes the rows of a task in a transaction, which is left open. Rows of a batch that was committed are dropped.

    They are taken from Spark all the same: a stateful query computes its state by that.
    """
    batch = current_batch()
    ids = TransactionalIds(exactly_once.id_prefix, batch.query_id)
    rows = (each for each in batches if each.num_rows)
    first = next(rows, None)
    if first is None:
        return RowsPrepared(batch, 0)
    if not WORKER.has_written_before(ids, batch) and _is_decided(options, exactly_once, batch):
        for _ in rows:
            pass
        return RowsPrepared(batch, 0, was_decided=True)
    with WORKER.lend(ids, batch) as transactional_id:
        settings = {**settings_of_attempt(options.client_config), "transactional.id": transactional_id}
        with SyncProducer(config=settings) as producer:
            producer.begin_transaction()
            written = write_batches(chain([first], rows), columns, producer)
            prepared = producer.prepare_transaction(allow_timeout=True)
    return RowsPrepared(batch, written, TaskTransaction(transactional_id, prepared))


def _is_decided(options: WriteOptions, exactly_once: ExactlyOnce, batch: Batch) -> bool:
    with sink_driver(options, exactly_once, batch.query_id) as driver:
        return driver.is_decided(batch.batch_id)
