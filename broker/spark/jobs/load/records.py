"""The rows of a run: the records to store, and those whose value does not fit the schema."""

from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.load.layout import with_event_time
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.values import ValueFormat, parse_values
from broker.spark.schema import PRODUCER_COLUMNS

T = TypeVar("T")

_METADATA_COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key")


class RunRecords:
    """The rows that `read` returns: the columns of the connector, those of offset ranges.

    Nothing is read before a method asks for it.
    """

    def __init__(self, read: Callable[[], DataFrame], options: LoadOptions, schema: str | None) -> None:
        self._read = read
        self._options = options
        self._schema = schema

    def write_fitting(self, write: Callable[[DataFrame], T | None]) -> tuple[T | None, bool]:
        """Hand the rows that fit to `write`. Returns what that returns, and true if there are others.

        `write` returns None if it has not executed the frame, since the rows are stored already.
        """
        values = parse_values(self._options.value_format, self._schema)
        frame = self._read().withColumn("_misfit", values.misfit)
        observation = Observation()
        observed = frame.observe(observation, F.sum(F.col("_misfit").cast("long")).alias("misfits"))
        headers = ("headers",) if self._options.has_headers else ()
        producers = PRODUCER_COLUMNS if self._options.has_producers else ()
        columns = ("topic", *_METADATA_COLUMNS, *headers, *producers)
        fitting = observed.where("not _misfit").select(*columns, values.value.alias("value"))
        written = write(with_event_time(fitting, self._event_time(), self._options.granularity))
        # A frame that was not executed was not observed either: `observation.get` would wait for ever.
        return written, self.has_misfits() if written is None else bool(observation.get["misfits"])

    def has_misfits(self) -> bool:
        """True if rows do not fit. Reads them again, unless all values fit anyhow."""
        return self._options.value_format is not ValueFormat.BINARY and not self.misfits().isEmpty()

    def misfits(self) -> DataFrame:
        """The rows that do not fit, with their values as they came, by the records' own time.

        Few runs have any, so these are read again rather than kept beside all others.
        """
        values = parse_values(self._options.value_format, self._schema)
        shaped = self._read().where(values.misfit).select("topic", *_METADATA_COLUMNS, "value")
        return with_event_time(shaped, F.col("timestamp"), self._options.granularity)

    def _event_time(self) -> Column:
        if self._options.event_time is None:
            return F.col("timestamp")
        return F.coalesce(F.expr(self._options.event_time).cast("timestamp"), F.col("timestamp"))
