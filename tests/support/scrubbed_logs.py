"""A log directory whose files are scrubbed, with one log that has all kinds of files."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from broker.storage.damage import Damage
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from broker.storage.scrub import Scrubber, ScrubConfig
from kraft.env import Disk, Env, RealDisk
from tests.support.logs import NOW_MS, append
from tests.support.running_node import Traced
from tests.support.transactional_logs import append_marker, append_transactional

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TOPIC_ID = bytes([1] * 16)
KEY: PartitionKey = ("orders", 0)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_ms=-1)
FAST = ScrubConfig(interval_ms=1, io_max_bytes_per_second=1 << 40)


@attrs.define(eq=False)
class ScrubbedLogs:
    """A log directory with the log KEY. `reported` has the damage that was passed on, `traced` the events."""

    path: Path
    env: Env
    log_manager: LogManager
    scrubber: Scrubber
    traced: Traced
    reported: list[tuple[PartitionKey, Damage]]

    @property
    def log(self) -> Log:
        return self.log_manager.logs[KEY]

    @property
    def partition(self) -> Path:
        return self.path / "orders-0"

    @property
    def directory(self) -> LogDir:
        return self.log_manager.directories[str(self.path)]

    async def scrub(self) -> None:
        """Make a pass."""
        await self.scrubber.scrub_directory(self.directory)

    def another_scrubber(self, config: ScrubConfig = FAST) -> Scrubber:
        """A scrubber of the same files, as after a restart."""
        return Scrubber(self.env, self.log_manager, config, lambda key, damage: self.reported.append((key, damage)))

    def rebuilt(self) -> list[str]:
        """The names of the files that were made again, in order."""
        return [str(event["path"]).rpartition("/")[2] for event in self.traced.of("storage_file_rebuilt")]

    def files(self) -> list[Path]:
        """The files of the directory that are not empty."""
        return sorted(each for each in self.path.rglob("*") if each.is_file() and each.stat().st_size)

    def content(self, path: Path) -> bytes:
        return path.read_bytes()

    def put(self, path: Path, content: bytes) -> None:
        """Overwrite a file in place, as damage does."""
        path.write_bytes(content)

    def forget(self) -> None:
        self.traced.events.clear()
        self.reported.clear()


@asynccontextmanager
async def scrubbed_logs(
    path: Path,
    *,
    config: LogConfig = CONFIG,
    disk: Disk | None = None,
    scrub_config: ScrubConfig = FAST,
    wall: Callable[[], float] = lambda: NOW_MS / 1000,
) -> AsyncIterator[ScrubbedLogs]:
    """Open the directory at `path`, which is created with an empty log KEY if it is missing."""
    traced = Traced()
    env = Env(disk or RealDisk(), random.Random(7), wall, traced)
    log_manager = await LogManager.open(env, LogManagerConfig((str(path),), 1), cluster_id=CLUSTER_ID)
    await log_manager.load(lambda topic: config)
    log_manager.read_high_watermarks()
    log_manager.create(*KEY[:1], TOPIC_ID, KEY[1], config)
    reported: list[tuple[PartitionKey, Damage]] = []
    scrubber = Scrubber(env, log_manager, scrub_config, lambda key, damage: reported.append((key, damage)))
    yield ScrubbedLogs(path, env, log_manager, scrubber, traced, reported)
    if log_manager.logs:
        await log_manager.close_cleanly()


async def fill(logs: ScrubbedLogs) -> None:
    """Fill the log with segments, epochs, idempotent producers and aborted transactions, and write all checkpoints."""
    log = logs.log
    for number in range(6):
        append(log, b"plain %d" % number, key=b"plain %d" % number, timestamp=NOW_MS + number * 10)
        append_transactional(log, number % 2, (b"key", b"transactional"))
        append(log, b"between", key=b"between", timestamp=NOW_MS + number)
        append_marker(log, number % 2, is_commit=number % 3 == 2)
    for number in range(9):
        append(log, b"later", key=b"later", leader_epoch=1 + number // 4)
    directory = logs.directory
    log.advance_log_start_offset(1)
    await log.flush()
    log.cleaned_offset = -1
    await directory.write_recovery_points()
    await directory.write_log_start_offsets()
    await directory.write_cleaned_offsets()
    await directory.write_high_watermarks(lambda topic, partition: log.log_end_offset)


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def sampled_bits(content: bytes, stride: int) -> Iterator[int]:
    """Bits of all bytes, and in other positions of them from byte to byte; all bits for a stride of 1."""
    return iter(range(0, len(content) * 8, stride))
