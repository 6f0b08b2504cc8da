"""Creates and deletes the files of partitions, a few at a time.

A metadata change may assign thousands of partitions to a broker, or remove them. Each costs some file system calls,
which take milliseconds while the file system commits its journal. If all were done in one turn of the event loop, the
node would be blocked for so long that other nodes take it for dead.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

Work: TypeAlias = Callable[[], None]

# Items done at once per metadata change; few topics have more partitions on one broker.
AT_ONCE: Final = 32
# Items per turn of the event loop. They take some milliseconds, and at worst a tenth of a second.
PER_TURN: Final = 8


class PartitionFileQueue:
    """Does work in the order in which it is added: the first items at once, the rest when `run` has its turns.

    `done` is called after each turn in which `run` did some work.
    """

    def __init__(self, done: Work) -> None:
        self._done = done
        self._waiting: deque[Work] = deque()
        self._work = trio.Event()
        self._left_at_once = AT_ONCE

    def begin(self) -> None:
        """Begin a new metadata change: its first items are done at once."""
        self._left_at_once = AT_ONCE

    def add(self, work: Work) -> None:
        """Do `work` now or later, in order."""
        if self._left_at_once and not self._waiting:
            self._left_at_once -= 1
            work()
        else:
            self._waiting.append(work)
            self._work.set()

    async def run(self) -> None:
        """Do the waiting work until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._waiting:
                for _ in range(min(PER_TURN, len(self._waiting))):
                    self._waiting.popleft()()
                self._done()
                await trio.lowlevel.checkpoint()
