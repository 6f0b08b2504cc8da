"""The options of a load."""

from enum import Enum
from typing import Final

import attrs

from broker.spark.jobs.load.layout import Granularity
from broker.spark.jobs.load.values import ValueFormat

_MIB: Final = 1 << 20


class TableFormat(Enum):
    """The storage format of records: plain Parquet files, or a table whose own package the session has."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@attrs.frozen
class LoadOptions:
    """`topics` go to `destination`, a directory in any file system that Spark writes to.

    A Delta table is in this directory. An Iceberg table is where its catalog keeps it: `table_name` names it, such as
    `lake.events.orders`; the directory has what the load knows about it.

    `event_time` is a column of the values that has a time, as an SQL expression such as `value.at`; None means the
    record's timestamp. A run reads at most `records_per_run`. A directory with at least `compact_from` files that are
    smaller than half of `file_size` bytes has these joined; 0 means never. A table joins its files by its own means,
    after every `compact_from` runs. `has_headers` keeps the records' headers, and `has_producers` the ids, epochs and
    sequence numbers of their producers.
    """

    topics: tuple[str, ...]
    destination: str
    granularity: Granularity = Granularity.DATE
    event_time: str | None = None
    value_format: ValueFormat = ValueFormat.BINARY
    value_schema: str | None = None
    has_headers: bool = False
    has_producers: bool = False
    compression: str = "zstd"
    records_per_run: int = 10_000_000
    file_size: int = 128 * _MIB
    compact_from: int = 16
    table_format: TableFormat = TableFormat.PARQUET
    table_name: str | None = None
