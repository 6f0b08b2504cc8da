"""The interface of destinations of `load`."""

from collections.abc import Callable, Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from broker.spark.jobs.load.manifest import Manifest
from broker.spark.jobs.load.records import RunRecords
from broker.spark.ranges import OffsetRange


class Destination(Protocol):
    """Stores records run by run, each run once. The manifests are the record of what is loaded.

    `read` returns the rows of offset ranges.
    """

    def recover(self, read: Callable[[Sequence[OffsetRange]], RunRecords]) -> Manifest | None:
        """Finish the run of a job that was killed. Returns the run that this has committed, if any.

        Has to be called before the first `load` of a job.
        """

    def load(self, ranges: Sequence[OffsetRange], read: Callable[[Sequence[OffsetRange]], RunRecords]) -> Manifest:
        """Store the records of the ranges as the next run. Raises JobFailed if another job was faster."""

    def compact(self) -> Manifest | None:
        """Join small files, if there are enough of them; None if not."""

    def records(self) -> DataFrame:
        """The records of the committed runs. Raises JobFailed if there are none yet."""
