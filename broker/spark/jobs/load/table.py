"""A destination that is a table: Delta Lake or Iceberg, whose own commits make the records of a run visible at once.

A run has three steps. Its plan, the ranges of offsets, is written down first. Then the table commits the rows, under
the run's number. Then the manifest is written. A table takes the same run at most once. So a job that finds a plan
without a manifest loads the same ranges again: what the table has already is left out, and nothing is in it twice.
"""

import json
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs
from pyspark.sql import DataFrame

from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load.layout import in_offset_order
from broker.spark.jobs.load.manifest import DIRECTORY, Manifest, ManifestLog, Plan, Position, TableCommit
from broker.spark.jobs.load.options import LoadOptions, TableFormat
from broker.spark.jobs.load.ranges import advance
from broker.spark.jobs.load.records import RunRecords
from broker.spark.jobs.load.values import ValueFormat
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange

_IDENTITY_FILE: Final = f"{DIRECTORY}/table"


class RunTable(Protocol):
    """A table to which runs are appended, each at most once. It is created by the first of them."""

    def append(self, frame: DataFrame, run: int) -> TableCommit | None:
        """Commit the rows of a run. None if the table has this run already; the frame is not executed then.

        Raises JobFailed if another job commits the same run meanwhile.
        """

    def commit_of(self, run: int) -> TableCommit | None:
        """The commit of a run in the table's history; None if there is none."""

    def compact(self) -> None:
        """Join small files."""

    def rows(self) -> DataFrame:
        """The rows of the table."""


@attrs.frozen
class TableIdentity:
    """The table that a destination belongs to, and the format of its values.

    `id` tells the runs of this destination from those of other loads into the same table.
    """

    format: TableFormat
    name: str | None
    values: ValueFormat
    id: str

    def __str__(self) -> str:
        name = "" if self.name is None else f" --table-name {self.name}"
        return f"--table {self.format.value}{name} --format {self.values.value}"


class TableDestination:
    """Stores runs in a table, and the rows that do not fit in a second one."""

    def __init__(
        self,
        files: JobFiles,
        options: LoadOptions,
        identity: TableIdentity,
        table: RunTable,
        quarantine: RunTable,
    ) -> None:
        self._files = files
        self._options = options
        self._identity = identity
        self._table = table
        self._quarantine = quarantine
        self._log = ManifestLog(files)

    def recover(self, read: Callable[[Sequence[OffsetRange]], RunRecords]) -> Manifest | None:
        number, positions = self._next()
        # A job may be killed before it has removed the plan of the run that it has committed.
        self._log.remove_plan(number - 1)
        plan = self._log.plan(number)
        if plan is None:
            return None
        if plan.kind == "compaction":
            return self._compact(plan, positions)
        return self._load(plan, positions, read(plan.ranges), self._table.commit_of(number))

    def load(self, ranges: Sequence[OffsetRange], read: Callable[[Sequence[OffsetRange]], RunRecords]) -> Manifest:
        number, positions = self._next()
        self._store_identity()
        plan = Plan(number, "load", _now_ms(), tuple(ranges))
        self._log.append_plan(plan)
        return self._load(plan, positions, read(ranges), None)

    def compact(self) -> Manifest | None:
        runs = list(self._log.last(self._options.compact_from))
        if not runs or len(runs) < self._options.compact_from or any(run.kind == "compaction" for run in runs):
            return None
        plan = Plan(runs[0].run + 1, "compaction", _now_ms(), ())
        self._log.append_plan(plan)
        return self._compact(plan, runs[0].positions)

    def records(self) -> DataFrame:
        if self._log.newest() is None:
            raise JobFailed(f"Nothing was loaded into {self._files.root}")
        return self._table.rows()

    def _next(self) -> tuple[int, Sequence[Position]]:
        """The number of the next run, and where it begins."""
        before = self._log.newest()
        return (0, ()) if before is None else (before.run + 1, before.positions)

    def _store_identity(self) -> None:
        stored = stored_identity(self._files)
        if stored is None:
            identity = self._identity
            content = attrs.asdict(identity) | {"format": identity.format.value, "values": identity.values.value}
            self._files.write_new(_IDENTITY_FILE, json.dumps(content))
        elif stored != self._identity:
            raise JobFailed(f"Another job has begun to write to {self._files.root}")

    def _load(
        self, plan: Plan, positions: Sequence[Position], rows: RunRecords, commit: TableCommit | None
    ) -> Manifest:
        """Take the steps that are left of a run. `commit` is that of its records, if the table has them."""
        if commit is None:
            commit, has_misfits = rows.write_fitting(lambda frame: self._append(self._table, frame, plan.run))
        else:
            has_misfits = rows.has_misfits()
        # Without a commit of its own, another job has finished the same run meanwhile.
        commit = commit or self._table.commit_of(plan.run)
        misfits = None
        if has_misfits:
            misfits = self._append(self._quarantine, rows.misfits(), plan.run) or self._quarantine.commit_of(plan.run)
        return self._commit(plan, positions, commit, misfits)

    def _append(self, table: RunTable, frame: DataFrame, run: int) -> TableCommit | None:
        return table.append(in_offset_order(frame, self._options.granularity), run)

    def _compact(self, plan: Plan, positions: Sequence[Position]) -> Manifest:
        self._table.compact()
        return self._commit(plan, positions)

    def _commit(
        self,
        plan: Plan,
        positions: Sequence[Position],
        records: TableCommit | None = None,
        misfits: TableCommit | None = None,
    ) -> Manifest:
        """Write the manifest of a run whose rows the table has."""
        manifest = Manifest(
            run=plan.run,
            kind=plan.kind,
            staging="",
            started_ms=plan.started_ms,
            committed_ms=_now_ms(),
            ranges=plan.ranges,
            positions=advance(positions, plan.ranges),
            records=0 if records is None else records.records,
            quarantined=0 if misfits is None else misfits.records,
            added=(),
            quarantine=(),
            removed=(),
            tables=tuple(each for each in (records, misfits) if each is not None),
        )
        self._log.append(manifest)
        self._log.remove_plan(plan.run)
        return manifest


def new_identity(options: LoadOptions) -> TableIdentity:
    """The identity of a destination into which nothing was loaded yet."""
    return TableIdentity(options.table_format, options.table_name, options.value_format, uuid.uuid4().hex)


def stored_identity(files: JobFiles) -> TableIdentity | None:
    """The table that a destination belongs to; None if it has plain files, or nothing yet."""
    if not files.exists(_IDENTITY_FILE):
        return None
    try:
        content = json.loads(files.read(_IDENTITY_FILE))
        kinds = {"format": TableFormat(content["format"]), "values": ValueFormat(content["values"])}
        return TableIdentity(**content | kinds)
    except (ValueError, TypeError, KeyError) as error:
        raise JobFailed(f"{files.uri(_IDENTITY_FILE)} names no table: {error}") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
