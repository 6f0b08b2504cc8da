"""`load`: topics to files or a table, in runs, each exactly once."""

import time
from collections.abc import Callable, Mapping, Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession

from broker.spark.jobs.cluster import Cluster
from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load.destination import open_destination
from broker.spark.jobs.load.manifest import Manifest, ManifestLog
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.ranges import next_ranges, replan_ranges
from broker.spark.jobs.load.records import RunRecords
from broker.spark.jobs.load.values import SAMPLE_MAX, kept_schema, store_schema
from broker.spark.jobs.results import LoadSummary
from broker.spark.ranges import OffsetRange


@attrs.frozen
class LoadProgress:
    """A committed run, and the progress towards the records that existed when the job began. `records_left` counts
    offsets.
    """

    manifest: Manifest
    records_left: int
    seconds: float


def load(
    spark: SparkSession,
    options: LoadOptions,
    cluster_options: Mapping[str, str],
    *,
    report: Callable[[LoadProgress], object] = lambda progress: None,
    ends_at: Callable[[], bool] | None = None,
    every_seconds: float = 10.0,
) -> LoadSummary:
    """Load the present records of the topics; with `ends_at`, load again every `every_seconds` until it returns true.

    `cluster_options` are those of `format("kraft")`. `report` is called with each committed run.

    Raises JobFailed if a topic is missing, was created again, or lost records that were not read yet, if another job
    writes to the destination, and if the session lacks the package of the table.
    """
    job = _Job(spark, options, Cluster(spark, cluster_options), report)
    job.recover()
    job.load_backlog()
    while ends_at is not None and not ends_at():
        time.sleep(every_seconds)
        job.load_backlog()
    return job.summary()


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        options: LoadOptions,
        cluster: Cluster,
        report: Callable[[LoadProgress], object],
    ) -> None:
        self._spark = spark
        self._options = options
        self._cluster = cluster
        self._report = report
        self._files = JobFiles(spark, options.destination)
        self._began = time.monotonic()
        self._committed: list[Manifest] = []
        self._schema = kept_schema(self._files, options.value_format, options.value_schema)
        self._destination = open_destination(spark, self._files, options)

    def recover(self) -> None:
        """Finish the run of a job that was killed."""
        began = time.monotonic()
        manifest = self._destination.recover(self._read_again)
        if manifest is not None:
            self._committed.append(manifest)
            self._report_progress(manifest, began, self._cluster.ranges(self._options.topics))

    def load_backlog(self) -> None:
        """Load the records that exist now."""
        available = self._cluster.ranges(self._options.topics)
        while ranges := self._next_ranges(available):
            if self._schema is None:
                self._schema = self._store_schema(ranges)
            began = time.monotonic()
            manifest = self._destination.load(ranges, self._read)
            self._committed.append(manifest)
            self._report_progress(manifest, began, available)
            compaction = self._destination.compact()
            if compaction is not None:
                self._committed.append(compaction)

    def summary(self) -> LoadSummary:
        loads = [manifest for manifest in self._committed if manifest.kind == "load"]
        return LoadSummary(
            runs=len(loads),
            records=sum(manifest.records for manifest in loads),
            quarantined=sum(manifest.quarantined for manifest in loads),
            files=sum(manifest.files for manifest in loads),
            bytes=sum(manifest.size for manifest in loads),
            compactions=len(self._committed) - len(loads),
            seconds=round(time.monotonic() - self._began, 3),
        )

    def _report_progress(self, manifest: Manifest, began: float, available: Sequence[OffsetRange]) -> None:
        left = sum(each.size for each in self._next_ranges(available, is_limited=False))
        self._report(LoadProgress(manifest, left, time.monotonic() - began))

    def _read(self, ranges: Sequence[OffsetRange]) -> RunRecords:
        return RunRecords(lambda: self._frame(ranges), self._options, self._schema)

    def _read_again(self, planned: Sequence[OffsetRange]) -> RunRecords:
        """The rows of a plan that another job has left: its topics may have changed since."""

        def read() -> DataFrame:
            available = self._cluster.ranges(each.topic for each in planned)
            ranges = replan_ranges(planned, available, fails_on_data_loss=self._cluster.fails_on_data_loss)
            return self._frame(ranges)

        return RunRecords(read, self._options, self._schema)

    def _frame(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        options = self._options
        return self._cluster.read(ranges, has_headers=options.has_headers, has_producers=options.has_producers)

    def _next_ranges(self, available: Sequence[OffsetRange], *, is_limited: bool = True) -> list[OffsetRange]:
        newest = ManifestLog(self._files).newest()
        return next_ranges(
            available,
            () if newest is None else newest.positions,
            records_max=self._options.records_per_run if is_limited else 1 << 62,
            fails_on_data_loss=self._cluster.fails_on_data_loss,
        )

    def _store_schema(self, ranges: Sequence[OffsetRange]) -> str | None:
        given = self._options.value_schema
        return store_schema(self._spark, self._files, self._options.value_format, given, lambda: self._sample(ranges))

    def _sample(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """The first records of each partition."""
        share = SAMPLE_MAX // len(ranges) + 1
        return self._cluster.read([attrs.evolve(each, end=min(each.end, each.start + share)) for each in ranges])
