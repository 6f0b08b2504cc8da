"""Queries over topics that call the data source as Spark does, in this process: a few milliseconds each,
without a JVM.
"""

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import attrs
import pytest
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from broker.client import KafkaError
from broker.client.arrow import schema_of
from broker.spark.data_loss import DataLoss
from broker.spark.offsets import IllegalJson
from broker.spark.options import IllegalOption
from broker.spark.schema import IllegalSchema
from broker.spark.source import KraftDataSource
from broker.spark.stream_source import KraftStreamReader

BATCH, STREAMING = "batch", "streaming"
_TOPICS = ("assign", "subscribe", "subscribePattern")
_REFUSALS = (IllegalOption, IllegalJson, IllegalSchema, DataLoss, KafkaError, TimeoutError)

Options = Mapping[str, str | None]
Row = dict[str, Any]


@attrs.frozen
class Found:
    """The result of a query: its rows, each with the number of its task as `task`, and the rows of each batch."""

    rows: list[Row]
    batches: list[int]

    @property
    def offsets(self) -> dict[int, list[int]]:
        """The offsets by partition, sorted; partitions without rows are left out."""
        partitions = sorted({row["partition"] for row in self.rows})
        return {each: sorted(row["offset"] for row in self.rows if row["partition"] == each) for each in partitions}

    @property
    def tasks(self) -> int:
        """The number of tasks that have read rows."""
        return len({row["task"] for row in self.rows})


class Stream:
    """A streaming query whose batches the test runs one by one."""

    def __init__(self, reader: KraftStreamReader, *, is_available_now: bool = False) -> None:
        self._reader = reader
        try:
            if is_available_now:
                reader.prepareForTriggerAvailableNow()
            self._limit = reader.getDefaultReadLimit()
            self._position = _from_checkpoint(reader.initialOffset())
        except BaseException:
            reader.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.stop()

    def next_batch(self) -> list[Row] | None:
        """Run the next batch. Returns its rows, possibly none; None if there is no batch yet."""
        start = self._position
        end = _from_checkpoint(self._reader.latestOffset(start, self._limit))
        if end == start:
            return None
        rows = _read(self._reader, self._reader.partitions(start, end))
        self._reader.commit(end)
        self._position = end
        return rows


@attrs.frozen
class SourceQueries:
    """Queries over `topic`, from its beginning, unless their options say otherwise. None removes an option."""

    bootstrap: str
    topic: str

    def columns(self, query: str, options: Options) -> list[str]:
        """The columns of a query without a schema of its own."""
        return _columns_of(self._source(query, options))

    def read(self, query: str, options: Options, *, schema: Any = None, filters: Sequence[Filter] = ()) -> Found:
        """Run a query; a streaming query reads the present records.

        `schema` is a pyarrow Schema. `filters` are predicates. They are not applied to the rows here, so they only have
        an effect if the reader applies them.
        """
        source = self._source(query, options)
        asked = from_arrow_schema(schema or schema_of(_columns_of(source)), prefer_timestamp_ntz=False)
        reader: Any = source.reader(asked) if query == BATCH else source.streamReader(asked)
        if hasattr(reader, "pushFilters"):
            list(reader.pushFilters(list(filters)))
        batches = [_read(reader, reader.partitions())] if query == BATCH else list(_batches(reader))
        return Found([row for batch in batches for row in batch], [len(batch) for batch in batches if batch])

    def refusal(self, query: str, options: Options, *, schema: Any = None) -> str:
        """The message with which a query fails."""
        with pytest.raises(_REFUSALS) as failure:
            self.read(query, options, schema=schema)
        return str(failure.value)

    @contextmanager
    def stream(self, options: Options) -> Iterator[Stream]:
        """A streaming query that continues, as with a processing-time trigger."""
        source = self._source(STREAMING, options)
        reader = source.streamReader(from_arrow_schema(schema_of(_columns_of(source)), prefer_timestamp_ntz=False))
        assert isinstance(reader, KraftStreamReader)
        with Stream(reader) as running:
            yield running

    def _source(self, query: str, options: Options) -> KraftDataSource:
        given: dict[str, str | None] = {"kafka.bootstrap.servers": self.bootstrap}
        if not options.keys() & set(_TOPICS):
            given["subscribe"] = self.topic
        if query == STREAMING and not any(name.startswith("starting") for name in options):
            given["startingOffsets"] = "earliest"
        return data_source({**given, **options})


def data_source(options: Options) -> KraftDataSource:
    """The source with options as Spark passes them, with names in lower case. None removes an option."""
    return KraftDataSource({name.lower(): value for name, value in options.items() if value is not None})


def copied(sent: Any) -> Any:
    """The copy of a driver's object that a worker gets."""
    return pickle.loads(pickle.dumps(sent))


def _columns_of(source: KraftDataSource) -> list[str]:
    return [each.split(" ")[0] for each in source.schema().split(", ")]


def _batches(reader: KraftStreamReader) -> Iterator[list[Row]]:
    with Stream(reader, is_available_now=True) as running:
        while (batch := running.next_batch()) is not None:
            yield batch


def _from_checkpoint(offset: dict[str, Any]) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(json.dumps(offset))
    return stored


def _read(reader: DataSourceReader | KraftStreamReader, parts: Sequence[InputPartition]) -> list[Row]:
    """The rows of all tasks. Each task gets copies of the reader and of its partition, as in a worker."""
    return [
        {**row, "task": task}
        for task, part in enumerate(parts)
        for batch in copied(reader).read(copied(part))
        for row in batch.to_pylist()
    ]
