"""The disk of a node of a test cluster: it does not sync, and may be full, slow or broken.

    {"full": true, "free_bytes": 5000}  {"sync_delay_ms": 500}  {"sync_error": true}  {"read_error": true}

All take a `topic`, or a topic and a `partition`, and concern the files of these partitions alone then.
"""

import errno
import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from jepsen.testing.errors import BadRequest
from jepsen.testing.unsynced_disk import UnsyncedDisk, UnsyncedFile
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words
from kraft.env import Buffer, FsyncFailed, NonBlockingSocket

# The latest operations that a fault remembers; all are counted.
FIRINGS_MAX: Final = 1_000
DISK_WORDS: Final[Mapping[str, Word]] = {
    "full": Word.true("Files cannot grow."),
    "free_bytes": Word.integer("Files can grow by so many bytes together. Goes with full.", 0),
    "sync_delay_ms": Word.number("Each fsync takes so much longer."),
    "sync_error": Word.true("An fsync fails, which ends the node."),
    "read_error": Word.true("Files cannot be read."),
    "topic": Word.text("Only files of this topic."),
    "partition": Word.integer("Only files of this partition of the topic."),
}
DISK_KINDS: Final = ("full", "sync_delay_ms", "sync_error", "read_error")


@attrs.frozen
class DiskFault:
    """One of `full`, `sync_delay_ms`, `sync_error` and `read_error`. A full disk has room for `free_bytes` more."""

    full: bool = False
    free_bytes: int = 0
    sync_delay_ms: float = 0.0
    sync_error: bool = False
    read_error: bool = False
    topic: str | None = None
    partition: int | None = None

    @classmethod
    def read(cls, words: Words) -> "DiskFault":
        """Take the words of a fault. Raises BadRequest."""
        given = [kind for kind in DISK_KINDS if kind in words]
        if len(given) != 1:
            raise BadRequest(f"a disk takes one of {', '.join(DISK_KINDS)}")
        values: dict[str, Any] = {}
        if given == ["sync_delay_ms"]:
            values["sync_delay_ms"] = words.number("sync_delay_ms")
        else:
            words.true(given[0])
            values[given[0]] = True
        if "free_bytes" in words:
            values["free_bytes"] = words.integer("free_bytes")
        if "topic" in words:
            values["topic"] = words.text("topic")
        if "partition" in words:
            values["partition"] = words.integer("partition")
        if "free_bytes" in values and (given != ["full"] or values["free_bytes"] < 0):
            raise BadRequest("free_bytes has to be 0 or more, and goes with full")
        if "partition" in values and "topic" not in values:
            raise BadRequest("partition goes with topic")
        return cls(**values)

    def concerns(self, path: str) -> bool:
        if self.topic is None:
            return True
        number = r"\d+" if self.partition is None else str(self.partition)
        return re.search(f"/{re.escape(self.topic)}-{number}(/|$)", path) is not None


@attrs.frozen
class DiskFiring:
    """An operation that a fault has affected. `at` is the wall-clock time."""

    at: float
    node: int
    operation: str
    path: str


class ActiveDiskFault:
    """A fault that is in force. `fired` counts the operations that it has affected, `held` the syncs that wait now."""

    def __init__(self, fault_id: str, fault: DiskFault, when_changed: Callable[["ActiveDiskFault"], None]) -> None:
        self.id = fault_id
        self.fault = fault
        self.fired = self.held = 0
        self.firings: deque[DiskFiring] = deque(maxlen=FIRINGS_MAX)
        self.ended = trio.Event()
        self._free_bytes = fault.free_bytes
        self._when_changed = when_changed

    def release(self) -> None:
        """Syncs go on after their delay, or at the end."""

    def retire(self) -> None:
        """It fires until its end."""

    def fire(self, firing: DiskFiring) -> None:
        self.firings.append(firing)
        self.fired += 1
        self._when_changed(self)

    def takes(self, count: int) -> bool:
        """True if the disk has room for so many bytes more, which are taken."""
        if count > self._free_bytes:
            return False
        self._free_bytes -= count
        return True

    async def delay(self) -> None:
        self.held += 1
        self._when_changed(self)
        try:
            with trio.move_on_after(self.fault.sync_delay_ms / 1000):
                await self.ended.wait()
        finally:
            self.held -= 1
            self._when_changed(self)


class DiskFaults:
    """The faults of the disk of one node, whose wall clock is `wall`."""

    def __init__(
        self,
        node: int,
        wall: Callable[[], float],
        when_changed: Callable[[ActiveDiskFault], None] = lambda active: None,
    ) -> None:
        self.faults: dict[str, ActiveDiskFault] = {}
        self._node = node
        self._wall = wall
        self._when_changed = when_changed

    def begin(self, fault_id: str, words: Mapping[str, Any]) -> None:
        """Put a fault in force."""
        self.faults[fault_id] = ActiveDiskFault(fault_id, DiskFault(**words), self._when_changed)

    def end(self, active: ActiveDiskFault) -> None:
        """End a fault; syncs that it delays go on."""
        self.faults.pop(active.id, None)
        active.ended.set()

    def check_room(self, path: str, growth: int) -> None:
        """Raises OSError if the file may not grow by so many bytes."""
        for active in self.faults.values():
            if active.fault.full and active.fault.concerns(path) and not active.takes(growth):
                self._fire(active, "write", path)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def check_read(self, path: str) -> None:
        """Raises OSError if the file cannot be read."""
        for active in self.faults.values():
            if active.fault.read_error and active.fault.concerns(path):
                self._fire(active, "read", path)
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    async def check_sync(self, path: str) -> None:
        """Wait as long as the sync takes. Raises FsyncFailed."""
        for active in list(self.faults.values()):
            if active.fault.concerns(path) and (active.fault.sync_error or active.fault.sync_delay_ms):
                self._fire(active, "sync", path)
                if active.fault.sync_error:
                    raise FsyncFailed(errno.EIO, os.strerror(errno.EIO), path)
                await active.delay()

    def is_full(self, path: str) -> bool:
        return any(active.fault.full and active.fault.concerns(path) for active in self.faults.values())

    def _fire(self, active: ActiveDiskFault, operation: str, path: str) -> None:
        active.fire(DiskFiring(self._wall(), self._node, operation, path))


class FaultyDisk(UnsyncedDisk):
    """A disk that does not sync, and whose operations pass through `faults`."""

    def __init__(self, faults: DiskFaults) -> None:
        super().__init__()
        self._faults = faults

    def open(self, path: str, *, create: bool = False) -> "FaultyFile":
        if create and self._faults.faults and not self.exists(path):
            self._faults.check_room(path, 1)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return FaultyFile(path, os.open(path, flags, 0o644), self._faults)

    def make_dir(self, path: str) -> None:
        if self._faults.faults and not self.exists(path):
            self._faults.check_room(path, 1)
        super().make_dir(path)

    def usage(self, path: str) -> tuple[int, int]:
        total, available = super().usage(path)
        return total, 0 if self._faults.is_full(path) else available

    async def sync_dir(self, path: str) -> None:
        await self._faults.check_sync(path)
        await super().sync_dir(path)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        for path in (*files, *directories):
            await self._faults.check_sync(path)
        await super().sync_all(files, directories)


class FaultyFile(UnsyncedFile):
    """A file of a `FaultyDisk`."""

    __slots__ = ("_faults",)

    def __init__(self, path: str, descriptor: int, faults: DiskFaults) -> None:
        super().__init__(path, descriptor)
        self._faults = faults

    def read(self, offset: int, count: int) -> bytes:
        if self._faults.faults:
            self._faults.check_read(self.path)
        return super().read(offset, count)

    def read_from_device(self, offset: int, count: int) -> bytes:
        if self._faults.faults:
            self._faults.check_read(self.path)
        return super().read_from_device(offset, count)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if self._faults.faults:
            growth = offset + sum(map(len, buffers)) - self.size()
            if growth > 0:
                self._faults.check_room(self.path, growth)
        super().write(offset, buffers)

    def send_to(self, sock: NonBlockingSocket, offset: int, count: int) -> int:
        if self._faults.faults:
            self._faults.check_read(self.path)
        return super().send_to(sock, offset, count)

    async def sync(self) -> None:
        await self._faults.check_sync(self.path)
        await super().sync()
