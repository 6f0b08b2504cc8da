"""Starts nodes on data directories in which one file is damaged, for every kind of file and damage.

`python -m tests.support.damaged_files` prints the table of docs/damaged-files.md. A data directory is made once for
each kind of shutdown, and copied for each case.
"""

import errno
import io
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stderr, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import trio

from broker.cli import start
from broker.cli.errors import print_errors
from broker.cli.event_printer import EventPrinter
from broker.log_levels import LogLevels
from broker.node import Node
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.errors import ErrorCode
from broker.wire.records import CorruptBatch, check_crc, iter_headers
from kraft.env import Env, RealFile, real_env
from tests.support.inline_disk import InlineDisk
from tests.support.requests import batch, create_topic, fetch, produce, records_of
from tests.support.running_node import RunningNode, Traced, node_config
from tests.support.wire_client import WireClient, connected

RECORDS: Final = 40
COMMITTED: Final = 7
SERVES_WITHIN_S: Final = 5
SETTINGS: Final = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "metadata_log_max_snapshot_interval_ms": 1,
    "metadata_log_max_record_bytes_between_snapshots": 1,
}
_TOPIC: Final = "orders"
_METADATA: Final = "__cluster_metadata-0"

# The damaged file: its name in the table, a pattern of its path, and the index of the match to use.
FILES: Final[dict[str, tuple[str, int]]] = {
    "meta.properties": ("meta.properties", 0),
    ".lock": (".lock", 0),
    ".kafka_cleanshutdown": (".kafka_cleanshutdown", 0),
    "recovery-point-offset-checkpoint": ("recovery-point-offset-checkpoint", 0),
    "log-start-offset-checkpoint": ("log-start-offset-checkpoint", 0),
    "replication-offset-checkpoint": ("replication-offset-checkpoint", 0),
    "cleaner-offset-checkpoint": ("cleaner-offset-checkpoint", 0),
    "a partition's directory": ("orders-0", 0),
    "first segment": ("orders-0/*.log", 0),
    "middle segment": ("orders-0/*.log", 2),
    "last segment": ("orders-0/*.log", -1),
    ".index": ("orders-0/*.index", 0),
    ".timeindex": ("orders-0/*.timeindex", 0),
    ".txnindex": ("orders-0/00000000000000000000.txnindex", 0),
    ".snapshot of producers": ("orders-0/*.snapshot", -1),
    ".snapshot at the recovery point": (f"orders-0/{RECORDS // 2:020}.snapshot", 0),
    "leader-epoch-checkpoint": ("orders-0/leader-epoch-checkpoint", 0),
    "partition.metadata": ("orders-0/partition.metadata", 0),
    ".unsettled": ("orders-0/.unsettled", 0),
    "segment of __consumer_offsets": ("__consumer_offsets-0/*.log", 0),
    "a directory ending in -delete": ("gone-0.0123456789abcdef0123456789abcdef-delete", 0),
    "a directory ending in -stray": ("gone-0.0123456789abcdef0123456789abcdef-stray", 0),
    "__cluster_metadata-0": (_METADATA, 0),
    "metadata log": (f"{_METADATA}/*.log", -1),
    "metadata snapshot": (f"{_METADATA}/*.checkpoint", -1),
    "quorum-state": (f"{_METADATA}/quorum-state", 0),
    "durable-end": (f"{_METADATA}/durable-end", 0),
    "foo.checkpoint": (f"{_METADATA}/foo.checkpoint", 0),
    "foo.log of metadata": (f"{_METADATA}/foo.log", 0),
    "99999999999999999999.log": ("orders-0/99999999999999999999.log", 0),
    "99999999999999999999.log of metadata": (f"{_METADATA}/99999999999999999999.log", 0),
}
DAMAGES: Final = ("absent", "empty", "cut", "garbage", "flipped bit", "directory", "foreign owner")
ENDINGS: Final = ("clean", "crash")


@attrs.frozen
class Outcome:
    """The result of a start. `kind` is "starts", "refuses", or a failure: "traceback" or "hangs".

    `lines` are the printed lines for the operator. `records` is the number of readable records, None if reading fails;
    `has_offsets` is True if the group's committed offset is returned.
    """

    kind: str
    lines: Sequence[str] = ()
    records: int | None = None
    has_offsets: bool | None = None

    @property
    def cell(self) -> str:
        """The cell of the table."""
        if self.kind != "starts":
            return self.kind
        lost = [f"{RECORDS - self.records} records less" if self.records is not None else "reading fails"]
        lost = [] if self.records == RECORDS else lost
        lost += [] if self.has_offsets else ["no offsets"]
        told = "told" if self.lines else "silent"
        return f"starts, {', '.join(lost)}: {told}" if lost else f"starts{', told' if self.lines else ''}"


class ForeignDisk(InlineDisk):
    """The real disk, except that `foreign` and everything below it belong to another user, which root would
    not notice.
    """

    def __init__(self, foreign: Path) -> None:
        self._foreign = str(foreign)

    def _check(self, path: str) -> None:
        if path == self._foreign or path.startswith(f"{self._foreign}/"):
            raise PermissionError(errno.EACCES, "Permission denied", path)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self._check(path)
        return super().open(path, create=create)

    def list(self, path: str) -> list[str]:
        self._check(path)
        return super().list(path)

    def lock(self, path: str) -> Any:
        self._check(path)
        return super().lock(path)


async def prepare(directory: Path, ending: str) -> None:
    """Make a data directory with all kinds of files, from a node that ended in the given way."""
    async with _running(directory, InlineDisk()) as node, connected(node.port) as client:
        await create_topic(client, _TOPIC, configs={"internal.segment.bytes": "1000"})
        await _until_coordinated(client)
        await _fill(client, 0, RECORDS // 2)
        await _commit(client)
    async with _running(directory, InlineDisk()) as node, connected(node.port) as client:
        await _until_coordinated(client)
        await _fill(client, RECORDS // 2, RECORDS)
        await _commit(client)
        if ending == "crash":
            node.crash()
    data = directory / "data"
    for pattern in ("*.log", "*.checkpoint"):  # files that were replaced and are not removed yet
        for path in sorted((data / _METADATA).glob(pattern))[:-1]:
            path.unlink()
    for name in ("gone-0.0123456789abcdef0123456789abcdef-delete", "gone-0.0123456789abcdef0123456789abcdef-stray"):
        (data / name).mkdir()
        (data / name / f"{0:020}.log").write_bytes(b"")


def damage(data: Path, file: str, how: str, rng: Random) -> Path | None:
    """Damage a file of a kind. Returns its path, or None if there is no such file."""
    pattern, index = FILES[file]
    found = sorted(data.glob(pattern))
    path = found[index] if found else data / pattern
    if not found and (how == "absent" or "*" in pattern):
        return None
    if how == "foreign owner":
        if not found:
            path.write_bytes(b"")
        return path
    content = path.read_bytes() if path.is_file() else b""
    is_directory = path.is_dir()
    if is_directory and how in ("cut", "flipped bit"):
        return None
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    if how == "directory" or (how == "empty" and is_directory):
        path.mkdir()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "garbage":
        path.write_bytes(rng.randbytes(len(content) or 100))
    elif how == "flipped bit":
        flipped = bytearray(content or b"\0")
        flipped[_place_of_flip(path, flipped)] ^= 1
        path.write_bytes(flipped)
    return path


def _place_of_flip(path: Path, content: bytearray) -> int:
    """The middle; in a topic id, which is random, the next letter or digit that becomes another one."""
    middle = len(content) // 2
    if path.name != "partition.metadata":
        return middle
    return next(place for place in range(middle, len(content)) if chr(content[place] ^ 1).isalnum())


async def outcome(directory: Path, foreign: Path | None = None) -> Outcome:
    """Start a node on the directory, read its records and offsets, and stop it."""
    disk = InlineDisk() if foreign is None else ForeignDisk(foreign)
    output = io.StringIO()
    kind, found = "hangs", (None, False)
    with redirect_stderr(output):
        try:
            with trio.move_on_after(SERVES_WITHIN_S + 10):
                async with _running(directory, disk) as node:
                    with suppress(OSError):  # of the client: a node that ends now refuses its connection
                        async with connected(node.port) as client:
                            found = (await _read(client), await _has_offsets(client))
                kind = "starts"
        except* start._REFUSALS as group:
            print_errors(group)
            kind = "refuses"
        except* _NotServing:
            pass
        except* Exception as group:  # noqa: BLE001 - any error of the node is the result
            print(repr(group))
            kind = "traceback"
    return Outcome(kind, _lines(output), *found)


class _NotServing(Exception):
    """The node did not serve in time."""


@asynccontextmanager
async def _running(directory: Path, disk: InlineDisk) -> AsyncIterator[RunningNode]:
    """A node that prints like `kraft start` and serves within the block."""
    printer = EventPrinter(1, LogLevels())
    env = real_env(printer.trace)
    node = Node(Env(disk, Random(), env.wall, printer.trace), node_config(directory, **SETTINGS))
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await node.run(task_status=task_status)

        with trio.move_on_after(SERVES_WITHIN_S) as starting:
            await nursery.start(run)
        if starting.cancelled_caught:
            raise _NotServing
        yield RunningNode(node, Traced(), scope)
        node.stop()


async def _fill(client: WireClient, first: int, end: int) -> None:
    for number in range(first, end):
        assert (await produce(client, batch(b"%d" % number + b"." * 100), topic=_TOPIC)).error_code == 0


async def _until_coordinated(client: WireClient) -> None:
    with trio.fail_after(10):
        while not (await _fetch_offset(client))[0]:
            await trio.sleep(0.02)


async def _commit(client: WireClient) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=COMMITTED)
    topic = OffsetCommitRequestTopic(name=_TOPIC, partitions=[partition])
    response = await client.call(OffsetCommitRequest(group_id="group", topics=[topic]), 9)
    assert response.topics[0].partitions[0].error_code == 0


async def _fetch_offset(client: WireClient) -> tuple[bool, int]:
    """True if the coordinator responds, and the committed offset, or -1."""
    await client.call(FindCoordinatorRequest(key="group"), 3)
    topic = OffsetFetchRequestTopics(name=_TOPIC, partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id="group", topics=[topic])
    group = (await client.call(OffsetFetchRequest(groups=[asked]), 9)).groups[0]
    if group.error_code:
        return False, -1
    return True, group.topics[0].partitions[0].committed_offset


async def _has_offsets(client: WireClient) -> bool:
    with trio.move_on_after(1), suppress(EOFError, AssertionError, trio.BrokenResourceError):
        while True:
            answers, offset = await _fetch_offset(client)
            if answers:
                return offset == COMMITTED
            await trio.sleep(0.02)
    return False


async def _read(client: WireClient) -> int | None:
    """The number of readable records; None if the response has an error or undecodable records."""
    offset, count = 0, 0
    with suppress(EOFError, AssertionError, CorruptBatch, trio.BrokenResourceError):
        while True:
            part = await fetch(client, offset, topic=_TOPIC)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and offset < RECORDS:
                offset += 1
                continue
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return count
            if part.error_code:
                return None
            for position, header in iter_headers(part.records):
                check_crc(part.records, position, header)
            records = [record for record in records_of(part) if record.offset >= offset]
            if not records:
                return count
            count, offset = count + len(records), records[-1].offset + 1
    return None


def _lines(output: io.StringIO) -> list[str]:
    """The lines for the operator: all except the usual ones, and those about leaders after each crash of one broker."""
    usual = re.compile(r"kraft: \S+ (info|warning node 1: (partitions_without_leader|unclean_leader_elected):) ")
    return [line for line in output.getvalue().splitlines() if not usual.match(line)]


def table(file_names: Sequence[str] = tuple(FILES)) -> list[str]:
    """The lines of the table: a row for each kind of file and shutdown."""
    rows = ["| file | ended | " + " | ".join(DAMAGES) + " |", "|---|---|" + "---|" * len(DAMAGES)]
    with tempfile.TemporaryDirectory() as root:
        for ending in ENDINGS:
            trio.run(prepare, Path(root) / ending, ending)
        for file in file_names:
            for ending in ENDINGS:
                cells = [_cell(Path(root), file, how, ending) for how in DAMAGES]
                rows.append(f"| {file} | {ending} | " + " | ".join(cells) + " |")
    return rows


def _cell(root: Path, file: str, how: str, ending: str) -> str:
    found = run_case(root / ending, root / "case", file, how)
    for line in () if found is None else found.lines:
        print(f"{file}, {how}, {ending}: {line.replace(str(root), '')}", file=sys.stderr)
    return "" if found is None else found.cell


def run_case(prepared: Path, directory: Path, file: str, how: str) -> Outcome | None:
    """Damage a copy of a prepared directory, and start a node on it."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(prepared, directory)
    path = damage(directory / "data", file, how, Random(7))
    if path is None:
        return None
    return trio.run(outcome, directory, path if how == "foreign owner" else None)


if __name__ == "__main__":
    for row in table(sys.argv[1:] or tuple(FILES)):
        print(row)
