"""Queues of logs that wait for work in the background: flushes of rolled segments, and checks of suspected files."""

from typing import Final

import trio

from broker.storage.log import Log
from broker.storage.log_dir import LogDir, PartitionKey

# Logs flushed at the same time, each with one fsync at a time; Kafka's default of background.threads. More would leave
# fewer of Trio's 40 threads to other work.
FLUSHING_TASKS: Final = 10


class RolledLogs:
    """The logs that have rolled a segment, and whose older segments are to be flushed; each is in the queue once."""

    def __init__(self) -> None:
        self._waiting: dict[Log, LogDir] = {}
        self._work = trio.Event()

    def add(self, log: Log, directory: LogDir) -> None:
        """Queue a log for the flush of its older segments. Does not block."""
        self._waiting[log] = directory
        self._work.set()

    async def next(self) -> tuple[Log, LogDir]:
        """Wait for a queued log and take it."""
        while not self._waiting:
            if self._work.is_set():  # another task has taken the log
                self._work = trio.Event()
            await self._work.wait()
        log = next(iter(self._waiting))
        return log, self._waiting.pop(log)


class SuspectLogs:
    """The logs in which readers have found a damaged file that the scrubber can make again; each is in it once."""

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, None] = {}
        self._work = trio.Event()

    def add(self, key: PartitionKey) -> None:
        """Queue a log. Does not block."""
        self._waiting[key] = None
        self._work.set()

    async def next(self) -> PartitionKey:
        """Wait for a queued log and take it. Only one task may wait."""
        while not self._waiting:
            self._work = trio.Event()
            await self._work.wait()
        key = next(iter(self._waiting))
        del self._waiting[key]
        return key
