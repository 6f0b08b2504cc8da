"""What a load is asked for."""

from typing import Final

import attrs

from broker.spark.jobs.load.layout import Granularity
from broker.spark.jobs.load.values import ValueFormat

_MIB: Final = 1 << 20


@attrs.frozen
class LoadOptions:
    """`topics` go to `destination`, a directory in any file system that Spark writes to.

    `event_time` is a column of the values that has a time, as an SQL expression such as `value.at`; None means the
    record's timestamp. A run reads at most `records_per_run`. A directory with at least `compact_from` files that are
    smaller than half of `file_size` bytes has these joined; 0 means never. `has_headers` keeps the records' headers.
    """

    topics: tuple[str, ...]
    destination: str
    granularity: Granularity = Granularity.DATE
    event_time: str | None = None
    value_format: ValueFormat = ValueFormat.BINARY
    value_schema: str | None = None
    has_headers: bool = False
    compression: str = "zstd"
    records_per_run: int = 10_000_000
    file_size: int = 128 * _MIB
    compact_from: int = 16
