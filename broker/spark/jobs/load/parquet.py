"""A destination of plain Parquet files, which any tool reads without a package."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.load.layout import read_files
from broker.spark.jobs.load.manifest import Manifest, ManifestLog, live_files
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.records import RunRecords
from broker.spark.jobs.load.run import Run, recover, write_frame
from broker.spark.jobs.results import JobFailed
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
        manifest = _compact(self._spark, self._files, self._options, self._live)
        if manifest is not None:
            self._live = live_files([manifest], self._live)
        return manifest

    def records(self) -> DataFrame:
        if not self._live:
            raise JobFailed(f"Nothing was loaded into {self._files.root}")
        return read_files(self._spark, self._files, self._live)


def _compact(spark: SparkSession, files: JobFiles, options: LoadOptions, live: Sequence[StoredFile]) -> Manifest | None:
    """Join the small files of each directory that has `options.compact_from` of them; None if none has.

    Each run adds some to every day for which it has records. `live` are the files of the destination. They are replaced
    in one run. A query that lists the directory meanwhile may miss some; `loaded` does not.
    """
    found = _small_files(live, options)
    if not found:
        return None
    run = Run(spark, files)
    for small in found.values():
        count = max(1, round(sum(file.size for file in small) / options.file_size))
        frame = read_files(spark, files, small)
        ordered = frame.repartitionByRange(count, "partition", "offset") if count > 1 else frame.coalesce(1)
        write_frame(ordered, options, run.data, is_added=True)
    joined = [file for small in found.values() for file in small]
    records = read_files(spark, files, joined).count()
    return run.commit("compaction", removed=[file.path for file in joined], records=records)


def _small_files(live: Sequence[StoredFile], options: LoadOptions) -> Mapping[str, list[StoredFile]]:
    """The files to join, by their directory."""
    directories: dict[str, list[StoredFile]] = defaultdict(list)
    for file in live:
        if file.size < options.file_size // 2:
            directories[file.path.rpartition("/")[0]].append(file)
    least = max(2, options.compact_from)
    return {name: small for name, small in directories.items() if options.compact_from and len(small) >= least}
