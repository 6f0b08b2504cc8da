"""Tasks of a streaming query without Spark around them: what Spark tells a task, and writers as Spark calls them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from broker.spark.sink.decisions import RowsPrepared
from broker.spark.sink.writers import ExactlyOnceStreamWriter
from tests.support.source_queries import Options, copied, data_source


@contextmanager
def task_of_query(query_id: str, run_id: str, batch_id: int) -> Iterator[None]:
    """Within the block, the process runs a task of this batch."""
    context = TaskContext()
    context._attemptNumber = 0
    context._localProperties = {
        "sql.streaming.queryId": query_id,
        "spark.jobGroup.id": run_id,
        "streaming.sql.batchId": str(batch_id),
    }
    TaskContext._setTaskContext(context)
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


@attrs.frozen
class StreamingSink:
    """A streaming query that writes; each run of it after a restart has another `run_id`."""

    options: Options
    query_id: str = attrs.field(factory=lambda: str(uuid4()))
    run_id: str = attrs.field(factory=lambda: str(uuid4()))

    def restarted(self) -> "StreamingSink":
        return attrs.evolve(self, run_id=str(uuid4()))

    def write(self, batch_id: int, *values: bytes) -> RowsPrepared:
        """Runs a task."""
        with task_of_query(self.query_id, self.run_id, batch_id):
            message = copied(self._writer()).write(iter([_rows(values)]))
        assert isinstance(message, RowsPrepared)
        return message

    def commit(self, batch_id: int, *messages: RowsPrepared | None) -> None:
        self._writer().commit(list(messages), batch_id)

    def abort(self, batch_id: int, *messages: RowsPrepared | None) -> None:
        self._writer().abort(list(messages), batch_id)

    def _writer(self) -> ExactlyOnceStreamWriter:
        schema = from_arrow_schema(_rows(()).schema, prefer_timestamp_ntz=False)
        writer = data_source(self.options).streamWriter(schema, False)
        assert isinstance(writer, ExactlyOnceStreamWriter)
        return writer


def _rows(values: tuple[bytes, ...]) -> Any:
    return pa.record_batch({"value": pa.array(values, pa.binary())})
