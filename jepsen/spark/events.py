"""Stored histories as DataFrames: lines of `jepsen.journal` as they are, or the same as columns in Parquet.

The columns in Parquet are `time`, `process`, `id`, `type`, `f`, `value` (a text of JSON) and `life`.
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
_LINE: Final = "process string, id bigint, type string, f string"
_LINES: Final = (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst")
_ROWS: Final = 65_536


def read_events(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """One row for each event, in `event` as a line of JSON, with the columns that operations are joined by.

    Paths that end in .jsonl are lines, all others Parquet. Raises BadJournal if a file is no history. The torn last
    line of a file, of a process that was killed, is left out.
    """
    lines = [path for path in paths if path.endswith(_LINES)]
    tables = [path for path in paths if not path.endswith(_LINES)]
    frames = [_of_lines(spark, lines)] if lines else []
    frames += [_of_tables(spark, tables)] if tables else []
    first, *others = frames
    return first.unionByName(others[0]) if others else first


def join_operations(events: DataFrame) -> DataFrame:
    """One row for each operation: `begun` and `completed` are its events, one of them may be null; `f`, `outcome`."""
    is_begun = F.col("type") == "invoke"
    begun = events.where(is_begun).select("process", "id", "f", F.col("event").alias("begun"))
    completed = events.where(~is_begun).select(
        "process", "id", F.col("type").alias("outcome"), F.col("event").alias("completed")
    )
    return begun.join(completed, ["process", "id"], "full_outer").withColumn(
        "outcome", F.coalesce("outcome", F.lit("info"))
    )


def write_parquet(history: History, path: Path) -> None:
    """Store a history as columns."""
    events = (event for operation in history.operations for event in events_of(operation))
    with pq.ParquetWriter(path, COLUMNS) as writer:
        for rows in _portions(events):
            writer.write_table(pa.Table.from_pylist(rows, COLUMNS))


def _portions(events: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for event in events:
        rows.append({"life": None, **event, "value": json.dumps(event["value"])})
        if len(rows) == _ROWS:
            yield rows
            rows = []
    yield rows


def _of_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    lines = spark.read.text(list(paths)).where("trim(value) != ''").withColumn("fields", F.from_json("value", _LINE))
    is_event = "fields.process is not null and fields.id is not null and fields.type is not null"
    _check(lines.where(f"not ({is_event})"))
    return lines.where(is_event).select("fields.*", F.col("value").alias("event"))


def _check(unknown: DataFrame) -> None:
    """Raises BadJournal if a file has more lines that are no events than its last one."""
    of_file = unknown.groupBy(F.input_file_name().alias("file"))
    bad = of_file.agg(F.count("*").alias("count"), F.first("value").alias("line")).where("count > 1").head(1)
    for row in bad:
        raise BadJournal(f"{row.file} has {row['count']} lines that tell of no operation, such as {row.line[:100]!r}")


def _of_tables(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    table = spark.read.parquet(*paths)
    missing = [name for name in COLUMNS.names if name not in table.columns]
    if missing:
        raise BadJournal(f"{paths[0]} is no history: it has no column {', '.join(missing)}")
    # The value is JSON already: it is put into the object as it is.
    fields = F.to_json(F.struct("time", "process", "id", "type", "f", "life"))
    event = F.concat(F.expr("substr(fields, 1, length(fields) - 1)"), F.lit(',"value":'), F.col("value"), F.lit("}"))
    return table.withColumn("fields", fields).select("process", "id", "type", "f", event.alias("event"))
