"""Stored histories as DataFrames with one row for each event.

The columns are the fields of `jepsen.journal`: `time`, `process`, `id`, `type`, `f`, `value` (a text of JSON), and the
incarnation. They come from a Parquet file or from the lines of a journal.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jepsen.history import History
from jepsen.journal import BadJournal, events_of
from jepsen.spark.arrow import map_batches

COLUMNS: Final = pa.schema(
    [
        pa.field("time", pa.int64()),
        pa.field("process", pa.string()),
        pa.field("id", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("f", pa.string()),
        pa.field("value", pa.string()),
        pa.field("life", pa.int32()),
    ]
)
# The columns with Spark's names for their types.
_TYPES: Final = {
    "time": "bigint",
    "process": "string",
    "id": "bigint",
    "type": "string",
    "f": "string",
    "value": "string",
    "life": "int",
}
_SCHEMA: Final = ", ".join(f"{column} {kind}" for column, kind in _TYPES.items())
_LINE: Final = "process string, id bigint, type string"
_LINES: Final = (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst")
_ROWS: Final = 65_536


def read_events(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read the events in these files.

    Paths that end in .jsonl have lines of JSON, all others are Parquet. Raises BadJournal if a file is not a history.
    An incomplete last line of a file is skipped: its process was killed while it wrote.
    """
    lines = [path for path in paths if path.endswith(_LINES)]
    tables = [path for path in paths if not path.endswith(_LINES)]
    frames = [_of_lines(spark, lines)] if lines else []
    frames += [_of_tables(spark, tables)] if tables else []
    first, *others = frames
    return first.unionByName(others[0]) if others else first


def write_parquet(history: History, path: Path) -> None:
    """Store a history as Parquet."""
    events = (event for operation in history.operations for event in events_of(operation))
    with pq.ParquetWriter(path, COLUMNS) as writer:
        for rows in _portions(events):
            writer.write_table(pa.Table.from_pylist(rows, COLUMNS))


def _portions(events: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for event in events:
        rows.append(_row(event))
        if len(rows) == _ROWS:
            yield rows
            rows = []
    yield rows


def _of_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    lines = spark.read.text(list(paths)).where("trim(value) != ''").withColumn("fields", F.from_json("value", _LINE))
    is_event = "fields.process is not null and fields.id is not null and fields.type is not null"
    _check(lines.where(f"not ({is_event})"))
    return map_batches(lines.where(is_event).select("value"), _parsed, _SCHEMA)


def _parsed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [_row(json.loads(line)) for line in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, COLUMNS)


def _row(event: dict[str, Any]) -> dict[str, Any]:
    return {"life": None, **event, "value": json.dumps(event["value"])}


def _check(unknown: DataFrame) -> None:
    """Raises BadJournal if any line of a file, except the last one, is not an event."""
    of_file = unknown.groupBy(F.input_file_name().alias("file"))
    bad = of_file.agg(F.count("*").alias("count"), F.first("value").alias("line")).where("count > 1").head(1)
    for row in bad:
        raise BadJournal(f"{row.file} has {row['count']} lines that are not operations, such as {row.line[:100]!r}")


def _of_tables(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    table = spark.read.parquet(*paths)
    missing = [name for name in COLUMNS.names if name not in table.columns]
    if missing:
        raise BadJournal(f"{paths[0]} is no history: it has no column {', '.join(missing)}")
    return table.selectExpr(*(f"cast({column} as {kind}) as {column}" for column, kind in _TYPES.items()))
