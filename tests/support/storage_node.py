"""The storage of one node with two log directories, on a disk with injected failures."""

import errno
import random
from collections.abc import Sequence
from pathlib import Path

from broker.storage.housekeeping import Housekeeping
from broker.storage.log_config import LogConfig
from broker.storage.log_manager import LogManager
from broker.storage.log_manager_config import LogManagerConfig
from broker.wire.records.record import Record, encode_batch
from kraft.env import Env, FsyncFailed, RealDisk, RealFile, sync_one_by_one

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
ORDERS, PAYMENTS = bytes([1] * 16), bytes([2] * 16)
CONFIG = LogConfig()
NOW_MS = 1_700_000_000_000


class FragileDisk(RealDisk):
    """Operations below the directories in `broken` fail with EIO; fsync of files below `unsyncable` fails."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.unsyncable: set[str] = set()
        self.synced: list[str] = []

    def _check(self, path: str) -> None:
        if any(path.startswith(broken) for broken in self.broken):
            raise OSError(errno.EIO, "Input/output error", path)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self._check(path)
        return super().open(path, create=create)

    def list(self, path: str) -> list[str]:
        self._check(path)
        return super().list(path)

    def make_dir(self, path: str) -> None:
        self._check(path)
        super().make_dir(path)

    def rename(self, old: str, new: str) -> None:
        self._check(old)
        super().rename(old, new)

    async def sync_dir(self, path: str) -> None:
        if any(path.startswith(unsyncable) for unsyncable in self.unsyncable):
            raise FsyncFailed(errno.EIO, "fsync failed", path)
        await super().sync_dir(path)
        self.synced.append(path)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)


class Node:
    """The storage of one node with the log directories a and b, which tests start and stop."""

    def __init__(self, path: Path, disk: FragileDisk | None = None) -> None:
        self.a, self.b = path / "a", path / "b"
        self.disk = disk or FragileDisk()
        self.config = LogManagerConfig(directories=(str(self.a), str(self.b)), node_id=1)
        self.events: list[dict[str, object]] = []
        self.now_ms = NOW_MS
        self.env = Env(self.disk, random.Random(7), lambda: self.now_ms / 1000, self._trace)
        self.log_manager: LogManager | None = None

    def _trace(self, kind: str, /, **fields: object) -> None:
        self.events.append({"kind": kind, **fields})

    async def start(self, cluster_id: str = CLUSTER_ID, config: LogConfig = CONFIG) -> LogManager:
        self.events.clear()
        self.log_manager = await LogManager.open(self.env, self.config, cluster_id=cluster_id)
        await self.log_manager.load(lambda topic: config)
        return self.log_manager

    async def stop(self) -> None:
        assert self.log_manager is not None
        await self.log_manager.close_cleanly(broker_epoch=5)

    def crash(self) -> None:
        assert self.log_manager is not None
        self.log_manager.release()

    def housekeeping(self) -> Housekeeping:
        assert self.log_manager is not None
        log_manager = self.log_manager
        return Housekeeping(self.env, log_manager, lambda *key: log_manager.logs[key].log_end_offset)

    def traced(self, kind: str) -> list[dict[str, object]]:
        return [event for event in self.events if event["kind"] == kind]

    def partitions(self) -> list[str]:
        found = [entry for directory in (self.a, self.b) if directory.exists() for entry in directory.iterdir()]
        return sorted(f"{entry.parent.name}/{entry.name}" for entry in found if entry.is_dir())


def produce(log, count: int = 1, *, leader_epoch: int = 0) -> None:
    records = [Record(offset, NOW_MS, b"key", b"value", ()) for offset in range(count)]
    log.append(memoryview(bytearray(encode_batch(records))), leader_epoch=leader_epoch, now_ms=NOW_MS)
    log.commit()
