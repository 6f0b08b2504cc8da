"""What a run of `load` has done: the offset ranges it read, the files it added, where the next run begins.

The manifest of a run is what commits it. Its number is in its name, and a file is never replaced, so that of two jobs
that write to one destination at the same time one fails.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import attrs

from broker.spark.jobs.failures import JobFailed
from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.ranges import OffsetRange

DIRECTORY: Final = "_manifests"
_DIGITS: Final = 12
_SUFFIX: Final = ".json"


@attrs.frozen
class Position:
    """Where the next run begins in a partition.

    `topic_id` has 16 bytes; it tells a topic from one of the same name that was deleted before.
    """

    topic: str
    topic_id: bytes
    partition: int
    offset: int


@attrs.frozen
class Manifest:
    """One run. Paths are relative to the destination; times are milliseconds since 1970.

    `staging` is the directory from which the added files are moved once the manifest is there. `removed` are files
    whose records are in the added ones: a compaction reads no ranges, and removes what it has joined.
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

    @property
    def size(self) -> int:
        """Bytes of the files that the run has added."""
        return sum(file.size for file in (*self.added, *self.quarantine))


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

    def append(self, manifest: Manifest) -> None:
        """Commit a run. Raises JobFailed if a run of this number is committed already."""
        content = json.dumps(attrs.asdict(manifest), indent=1, default=bytes.hex)
        self._files.write_new(f"{DIRECTORY}/{manifest.run:0{_DIGITS}}{_SUFFIX}", content)

    def _names(self) -> list[str]:
        return [name for name in self._files.names(DIRECTORY) if name.endswith(_SUFFIX) and name[:1].isdecimal()]

    def _read(self, name: str) -> Manifest:
        path = f"{DIRECTORY}/{name}"
        try:
            return _manifest(json.loads(self._files.read(path)))
        except (ValueError, TypeError, KeyError) as error:
            raise JobFailed(f"{self._files.uri(path)} is no manifest of a run: {error}") from error


def live_files(manifests: Iterable[Manifest], before: Iterable[StoredFile] = ()) -> list[StoredFile]:
    """The files that the records are in after these runs, sorted by path; `before` are those before them."""
    files = {file.path: file for file in before}
    for manifest in manifests:
        for path in manifest.removed:
            files.pop(path, None)
        files.update({file.path: file for file in manifest.added})
    return [files[path] for path in sorted(files)]


def _manifest(content: dict[str, Any]) -> Manifest:
    return Manifest(
        **content
        | {
            "ranges": tuple(OffsetRange(**_with_id(each)) for each in content["ranges"]),
            "positions": tuple(Position(**_with_id(each)) for each in content["positions"]),
            "added": tuple(StoredFile(**each) for each in content["added"]),
            "quarantine": tuple(StoredFile(**each) for each in content["quarantine"]),
            "removed": tuple(content["removed"]),
        }
    )


def _with_id(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"topic_id": bytes.fromhex(content["topic_id"])}
