"""Logs that have begun a new segment, and whose older segments are to be flushed soon."""

from typing import Final

import trio

from broker.storage.log import Log
from broker.storage.log_dir import LogDir

# Logs flushed at the same time, each with one fsync after the other; as many as Kafka's background.threads by default.
# More would leave fewer of Trio's 40 threads to everything else.
FLUSHING_TASKS: Final = 10


class RolledLogs:
    """The logs that wait for their flush, each once: there are never more of them than logs."""

    def __init__(self) -> None:
        self._waiting: dict[Log, LogDir] = {}
        self._work = trio.Event()

    def add(self, log: Log, directory: LogDir) -> None:
        """Have the log's older segments flushed. Does not block."""
        self._waiting[log] = directory
        self._work.set()

    async def next(self) -> tuple[Log, LogDir]:
        """Wait for a log that was added and take it."""
        while not self._waiting:
            if self._work.is_set():  # another task took what it was set for
                self._work = trio.Event()
            await self._work.wait()
        log = next(iter(self._waiting))
        return log, self._waiting.pop(log)
