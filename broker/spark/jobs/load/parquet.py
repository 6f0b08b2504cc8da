"""A destination of plain Parquet files, which any tool reads without a package."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession

from broker.spark.jobs.failures import JobFailed
from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load.compaction import compact
from broker.spark.jobs.load.layout import read_files
from broker.spark.jobs.load.manifest import Manifest, ManifestLog, live_files
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.records import RunRecords
from broker.spark.jobs.load.run import Run, recover, write_frame
from broker.spark.ranges import OffsetRange


class ParquetDestination:
    """Commits a run by its manifest, which names the files that it has added."""

    def __init__(self, spark: SparkSession, files: JobFiles, options: LoadOptions) -> None:
        self._spark = spark
        self._files = files
        self._options = options
        self._log = ManifestLog(files)
        # If another job commits, this one fails, so the state that was read once stays valid.
        self._live = live_files(self._log.all())

    def recover(self, read: Callable[[Sequence[OffsetRange]], RunRecords]) -> None:
        """Moves the files of a committed run. A run without a manifest has no effect."""
        recover(self._files)

    def load(self, ranges: Sequence[OffsetRange], read: Callable[[Sequence[OffsetRange]], RunRecords]) -> Manifest:
        run = Run(self._spark, self._files)
        rows = read(ranges)

        _, has_misfits = rows.write_fitting(lambda frame: write_frame(frame, self._options, run.data))
        if has_misfits:
            write_frame(rows.misfits(), self._options, run.quarantine)
        manifest = run.commit("load", ranges=ranges)
        self._live = live_files([manifest], self._live)
        return manifest

    def compact(self) -> Manifest | None:
        manifest = compact(self._spark, self._files, self._options, self._live)
        if manifest is not None:
            self._live = live_files([manifest], self._live)
        return manifest

    def records(self) -> DataFrame:
        if not self._live:
            raise JobFailed(f"Nothing was loaded into {self._files.root}")
        return read_files(self._spark, self._files, self._live)
