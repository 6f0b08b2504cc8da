"""One run of a load: reads ranges of offsets, writes their files beside the data, and commits them by a manifest.

A run that is killed before its manifest is there has done nothing: the next one reads the same ranges, and clears what
was left. After the manifest is there, the run counts: moving its files is repeated by `recover` at the beginning of the
next job. So each record is in the destination once, whenever the job is killed.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.cluster import Cluster
from broker.spark.jobs.failures import JobFailed
from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.load.layout import with_event_time
from broker.spark.jobs.load.manifest import Manifest, ManifestLog, Position
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.ranges import advance
from broker.spark.jobs.load.values import ParsedValues, parse_values
from broker.spark.ranges import OffsetRange

QUARANTINE: Final = "_quarantine"
_STAGING: Final = "_staging"
_DATA: Final = "data"
_METADATA_COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key")


class Run:
    """The next run of a destination, a load or a compaction: what it writes is in `staging` until `commit`."""

    def __init__(self, spark: SparkSession, files: JobFiles) -> None:
        self._spark = spark
        self._files = files
        self._log = ManifestLog(files)
        self._before = self._log.newest()
        self._number = 0 if self._before is None else self._before.run + 1
        self._started_ms = _now_ms()
        self._staging = f"{_STAGING}/run-{self._number}-{uuid.uuid4().hex}"

    @property
    def data(self) -> str:
        """The URI of the directory for the files of records."""
        return self._files.uri(f"{self._staging}/{_DATA}")

    @property
    def quarantine(self) -> str:
        """The URI of the directory for the files of rows that do not fit."""
        return self._files.uri(f"{self._staging}/{QUARANTINE}")

    @property
    def positions(self) -> tuple[Position, ...]:
        """Where the run begins."""
        return () if self._before is None else self._before.positions

    def commit(
        self,
        kind: Literal["load", "compaction"],
        *,
        ranges: Sequence[OffsetRange] = (),
        removed: Sequence[str] = (),
        records: int | None = None,
    ) -> Manifest:
        """Make the files that were written part of the destination.

        Raises JobFailed if another job has committed a run meanwhile, or if the files do not have `records` records.
        """
        added = tuple(self._files.data_files(f"{self._staging}/{_DATA}"))
        quarantine = tuple(self._files.data_files(f"{self._staging}/{QUARANTINE}"))
        written = self._count(self.data, added)
        if records is not None and written != records:
            raise JobFailed(f"{written} records were written in place of {records}; nothing was committed")
        manifest = Manifest(
            run=self._number,
            kind=kind,
            staging=self._staging,
            started_ms=self._started_ms,
            committed_ms=_now_ms(),
            ranges=tuple(ranges),
            positions=advance(self.positions, ranges),
            records=written,
            quarantined=self._count(self.quarantine, quarantine),
            added=added,
            quarantine=tuple(StoredFile(f"{QUARANTINE}/{file.path}", file.size) for file in quarantine),
            removed=tuple(removed),
        )
        self._log.append(manifest)
        _apply(self._files, manifest)
        return manifest

    def _count(self, uri: str, written: Sequence[StoredFile]) -> int:
        """The records in these files, by their footers."""
        return self._spark.read.parquet(uri).count() if written else 0


def load_ranges(
    spark: SparkSession,
    cluster: Cluster,
    files: JobFiles,
    options: LoadOptions,
    schema: str | None,
    ranges: Sequence[OffsetRange],
) -> Manifest:
    """Load the ranges as the next run; its manifest."""
    run = Run(spark, files)
    values = parse_values(options.value_format, schema)
    frame = cluster.read(ranges, has_headers=options.has_headers).withColumn("_misfit", values.misfit)
    observation = Observation()
    observed = frame.observe(observation, F.sum(F.col("_misfit").cast("long")).alias("misfits"))
    write_frame(_records(observed.where("not _misfit"), options, values), options, run.data)
    if observation.get["misfits"]:
        # Few runs have any, so these are read again rather than kept beside all others.
        write_frame(_misfits(frame.where("_misfit"), options), options, run.quarantine)
    return run.commit("load", ranges=ranges)


def recover(files: JobFiles) -> None:
    """Do what is left of the last committed run, and clear what other runs have left."""
    newest = ManifestLog(files).newest()
    if newest is not None and files.exists(newest.staging):
        _apply(files, newest)
    files.delete(_STAGING)


def write_frame(frame: DataFrame, options: LoadOptions, uri: str, *, is_added: bool = False) -> None:
    """Write a frame with the columns of the layout; the records of a file are in the order of their offsets.

    `is_added`: to what is in the directory already.
    """
    columns = options.granularity.columns
    ordered = frame.sortWithinPartitions(*columns, "partition", "offset")
    writer = ordered.write.partitionBy(*columns).option("compression", options.compression)
    writer.mode("append" if is_added else "error").parquet(uri)


def _records(frame: DataFrame, options: LoadOptions, values: ParsedValues) -> DataFrame:
    columns = ["topic", *_METADATA_COLUMNS, *(["headers"] if options.has_headers else [])]
    shaped = frame.select(*columns, values.value.alias("value"))
    return with_event_time(shaped, _event_time(options), options.granularity)


def _misfits(frame: DataFrame, options: LoadOptions) -> DataFrame:
    """With the values as they came, by the records' own time."""
    shaped = frame.select("topic", *_METADATA_COLUMNS, "value")
    return with_event_time(shaped, F.col("timestamp"), options.granularity)


def _event_time(options: LoadOptions) -> Column:
    if options.event_time is None:
        return F.col("timestamp")
    return F.coalesce(F.expr(options.event_time).cast("timestamp"), F.col("timestamp"))


def _apply(files: JobFiles, manifest: Manifest) -> None:
    """Remove and move files as a committed run says; what was done before is not done again."""
    for path in manifest.removed:
        files.delete(path)
    for file in manifest.added:
        files.move(f"{manifest.staging}/{_DATA}/{file.path}", file.path)
    for file in manifest.quarantine:
        files.move(f"{manifest.staging}/{file.path}", file.path)
    files.delete(manifest.staging)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
