"""Chooses the destination of a load by its options, and by earlier loads into the same directory."""

from collections.abc import Callable, Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load.delta import DeltaTable
from broker.spark.jobs.load.iceberg import IcebergTable
from broker.spark.jobs.load.manifest import DIRECTORY, Manifest, ManifestLog
from broker.spark.jobs.load.options import LoadOptions, TableFormat
from broker.spark.jobs.load.parquet import ParquetDestination
from broker.spark.jobs.load.records import RunRecords
from broker.spark.jobs.load.run import QUARANTINE
from broker.spark.jobs.load.table import TableDestination, TableIdentity, new_identity, stored_identity
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange


class Destination(Protocol):
    """Stores records run by run, each run once. The manifests record the runs.

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


def open_destination(spark: SparkSession, files: JobFiles, options: LoadOptions) -> Destination:
    """The destination of a load.

    Raises JobFailed if it was loaded as another kind of table before, and if the session lacks the table's package.
    """
    if (options.table_format is TableFormat.ICEBERG) != (options.table_name is not None):
        raise JobFailed("An Iceberg table needs a name, such as lake.events.orders; others have none")
    stored, wanted = stored_identity(files), new_identity(options)
    if stored is None and wanted.format is not TableFormat.PARQUET and ManifestLog(files).newest() is not None:
        raise JobFailed(f"{files.root} has Parquet files of earlier runs: load a table into another directory")
    if stored is not None and str(stored) != str(wanted):
        raise JobFailed(f"{files.root} was loaded with {stored}, not with {wanted}")
    return _opened(spark, files, options, stored or wanted)


def loaded(spark: SparkSession, destination: str) -> DataFrame:
    """The records of the committed runs: the columns of the connector, `date` and perhaps `hour`.

    A run that is being committed or compacted meanwhile is in it as a whole or not at all. Raises JobFailed if nothing
    was loaded there.
    """
    files, options = JobFiles(spark, destination), LoadOptions((), destination)
    return _opened(spark, files, options, stored_identity(files) or new_identity(options)).records()


def is_destination(spark: SparkSession, directory: str) -> bool:
    """True if `load` has written there."""
    return JobFiles(spark, directory).exists(DIRECTORY)


def _opened(spark: SparkSession, files: JobFiles, options: LoadOptions, identity: TableIdentity) -> Destination:
    application = f"kraft-load-{identity.id}"
    match identity.format:
        case TableFormat.PARQUET:
            return ParquetDestination(spark, files, options)
        case TableFormat.DELTA:
            paths = ("", QUARANTINE)
            records, misfits = (DeltaTable(spark, files, path, options, application) for path in paths)
            return TableDestination(files, options, identity, records, misfits)
        case TableFormat.ICEBERG:
            names = (f"{identity.name}", f"{identity.name}{QUARANTINE}")
            rows, others = (IcebergTable(spark, name, options, application) for name in names)
            return TableDestination(files, options, identity, rows, others)
