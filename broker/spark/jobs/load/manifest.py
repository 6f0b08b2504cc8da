"""The record of a run of `load`: the offset ranges it read, the files it added, and the start of the next run.

The manifest of a run into files commits the run. The run's number is in its name, and a file is never replaced: if two
jobs write to one destination at the same time, one of them fails.

A run into a table is committed by the table. Its plan is written before, and its manifest after that. See `table.py`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

import attrs

from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange

T = TypeVar("T")

DIRECTORY: Final = "_manifests"
_DIGITS: Final = 12
_SUFFIX: Final = ".json"
_PLAN_SUFFIX: Final = ".plan"


@attrs.frozen
class Position:
    """The start of the next run in a partition.

    `topic_id` has 16 bytes; it tells a topic from one of the same name that was deleted before.
    """

    topic: str
    topic_id: bytes
    partition: int
    offset: int


@attrs.frozen
class Plan:
    """The plan of a run into a table.

    It reserves the run's number, and is never changed: each job that goes on with the run loads the same records.
    """

    run: int
    kind: Literal["load", "compaction"]
    started_ms: int
    ranges: tuple[OffsetRange, ...]


@attrs.frozen
class TableCommit:
    """The commit of a run in a table: Delta's version or Iceberg's snapshot, and the `size` that it added in bytes."""

    version: int
    records: int
    files: int
    size: int


@attrs.frozen
class Manifest:
    """One run. Paths are relative to the destination; times are milliseconds since 1970.

    `staging` is the directory from which the added files are moved once the manifest is there. `removed` are files
    whose records are in the added ones: a compaction reads no ranges, and removes what it has joined. A run into a
    table has `tables` in place of files: the commit of its records, and that of its quarantine, if it has any.
    """

    run: int
    kind: Literal["load", "compaction"]
    staging: str
    started_ms: int
    committed_ms: int
    ranges: tuple[OffsetRange, ...]
    positions: tuple[Position, ...]
    records: int
    quarantined: int
    added: tuple[StoredFile, ...]
    quarantine: tuple[StoredFile, ...]
    removed: tuple[str, ...]
    tables: tuple[TableCommit, ...] = ()

    @property
    def files(self) -> int:
        """The number of files that the run has added."""
        return len(self.added) + len(self.quarantine) + sum(commit.files for commit in self.tables)

    @property
    def size(self) -> int:
        """Bytes of the files that the run has added."""
        files = sum(file.size for file in (*self.added, *self.quarantine))
        return files + sum(commit.size for commit in self.tables)


class ManifestLog:
    """The manifests of a destination, in the order of their runs."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files

    def newest(self) -> Manifest | None:
        """The last committed run; None before the first."""
        names = self._names()
        return self._read(names[-1]) if names else None

    def all(self) -> Iterator[Manifest]:
        return (self._read(name) for name in self._names())

    def last(self, count: int) -> Iterator[Manifest]:
        """The last `count` runs, the newest first."""
        return (self._read(name) for name in self._names()[: -count - 1 : -1])

    def append(self, manifest: Manifest) -> None:
        """Commit a run. Raises JobFailed if a run of this number is committed already."""
        content = json.dumps(attrs.asdict(manifest), indent=1, default=bytes.hex)
        self._files.write_new(_path(manifest.run, _SUFFIX), content)

    def plan(self, run: int) -> Plan | None:
        """The plan of a run; None if it has none."""
        path = _path(run, _PLAN_SUFFIX)
        return self._decode(path, _plan) if self._files.exists(path) else None

    def append_plan(self, plan: Plan) -> None:
        """Write a plan down. Raises JobFailed if another job has begun this run, or committed it."""
        content = json.dumps(attrs.asdict(plan), indent=1, default=bytes.hex)
        self._files.write_new(_path(plan.run, _PLAN_SUFFIX), content)
        # Another job may have committed this run, and removed its plan, since the caller has looked for the newest.
        newest = self.newest()
        if newest is not None and newest.run >= plan.run:
            self.remove_plan(plan.run)
            raise JobFailed(f"Run {plan.run} is committed: another job writes to {self._files.root} at the same time")

    def remove_plan(self, run: int) -> None:
        """Remove the plan of a run that is committed."""
        self._files.delete(_path(run, _PLAN_SUFFIX))

    def _names(self) -> list[str]:
        return [name for name in self._files.names(DIRECTORY) if name.endswith(_SUFFIX) and name[:1].isdecimal()]

    def _read(self, name: str) -> Manifest:
        return self._decode(f"{DIRECTORY}/{name}", _manifest)

    def _decode(self, path: str, decode: Callable[[dict[str, Any]], T]) -> T:
        try:
            return decode(json.loads(self._files.read(path)))
        except (ValueError, TypeError, KeyError) as error:
            raise JobFailed(f"{self._files.uri(path)} is not what a run has written: {error}") from error


def live_files(manifests: Iterable[Manifest], before: Iterable[StoredFile] = ()) -> list[StoredFile]:
    """The files that the records are in after these runs, sorted by path; `before` are those before them."""
    files = {file.path: file for file in before}
    for manifest in manifests:
        for path in manifest.removed:
            files.pop(path, None)
        files.update({file.path: file for file in manifest.added})
    return [files[path] for path in sorted(files)]


def _path(run: int, suffix: str) -> str:
    return f"{DIRECTORY}/{run:0{_DIGITS}}{suffix}"


def _plan(content: dict[str, Any]) -> Plan:
    return Plan(**content | {"ranges": _ranges(content)})


def _manifest(content: dict[str, Any]) -> Manifest:
    return Manifest(
        **content
        | {
            "ranges": _ranges(content),
            "positions": tuple(Position(**_with_id(each)) for each in content["positions"]),
            "added": tuple(StoredFile(**each) for each in content["added"]),
            "quarantine": tuple(StoredFile(**each) for each in content["quarantine"]),
            "removed": tuple(content["removed"]),
            "tables": tuple(TableCommit(**each) for each in content.get("tables", ())),
        }
    )


def _ranges(content: dict[str, Any]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(**_with_id(each)) for each in content["ranges"])


def _with_id(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"topic_id": bytes.fromhex(content["topic_id"])}
