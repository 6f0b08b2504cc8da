"""The logs in which readers have found a damaged file that the scrubber can make again."""

import trio

from broker.storage.log_dir import PartitionKey


class SuspectLogs:
    """A queue of logs; each is in it at most once."""

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
