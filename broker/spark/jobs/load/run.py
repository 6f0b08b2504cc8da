"""One run into Parquet files: writes them beside the data, and commits them by a manifest.

A run that is killed before its manifest is written has no effect: the next run reads the same ranges, and deletes the
files that the killed run has left. After the manifest is there, the run counts: moving its files is repeated by
`recover` at the beginning of the next job. So each record is in the destination once, whenever the job is killed.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Final, Literal

from pyspark.sql import DataFrame, SparkSession

from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.load.layout import in_offset_order
from broker.spark.jobs.load.manifest import Manifest, ManifestLog, Position
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.load.ranges import advance
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange

QUARANTINE: Final = "_quarantine"
_STAGING: Final = "_staging"
_DATA: Final = "data"


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
        """The positions at which the run begins."""
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
            raise JobFailed(f"{written} records were written instead of {records}; nothing was committed")
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


def recover(files: JobFiles) -> None:
    """Finish the last committed run, and delete the files of runs that were not committed."""
    newest = ManifestLog(files).newest()
    if newest is not None and files.exists(newest.staging):
        _apply(files, newest)
    files.delete(_STAGING)


def write_frame(frame: DataFrame, options: LoadOptions, uri: str, *, is_added: bool = False) -> str:
    """Write a frame with the columns of the layout; the records of a file are in the order of their offsets.

    `is_added`: to what is in the directory already. Returns the URI of the directory.
    """
    writer = in_offset_order(frame, options.granularity).write.partitionBy(*options.granularity.columns)
    writer.option("compression", options.compression).mode("append" if is_added else "error").parquet(uri)
    return uri


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
