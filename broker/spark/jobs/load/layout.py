"""Where records lie in a destination: `topic=<name>/date=<day>[/hour=<hour>]`, by event time in UTC."""

from enum import Enum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

_MICROSECONDS_PER_HOUR = 3_600_000_000


class Granularity(Enum):
    """How finely event time divides a topic."""

    DATE = "date"
    HOUR = "hour"

    @property
    def columns(self) -> list[str]:
        """The columns that name directories, outermost first."""
        return ["topic", "date"] if self is Granularity.DATE else ["topic", "date", "hour"]


def with_event_time(frame: DataFrame, event_time: Column, granularity: Granularity) -> DataFrame:
    """Add the columns of the layout.

    Whatever the session's time zone is, a record's day is its day in UTC: else another session would put the same
    record elsewhere.
    """
    hours = F.floor(F.unix_micros(event_time) / F.lit(_MICROSECONDS_PER_HOUR))
    frame = frame.withColumn("date", F.date_from_unix_date(F.floor(hours / F.lit(24)).cast("int")))
    return frame if granularity is Granularity.DATE else frame.withColumn("hour", F.pmod(hours, F.lit(24)).cast("int"))
