"""Files that come and go with partitions, some at a time.

A metadata change may bring a broker thousands of partitions, or take them away. Each costs some calls of the file
system, which take milliseconds while it is busy with its journal. Done within one turn of the event loop, they would
keep the node from everything else for so long that others take it for dead.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

Work: TypeAlias = Callable[[], None]

# Few topics have more partitions on one broker: these are there as soon as the metadata says so.
AT_ONCE: Final = 32
# Some milliseconds' worth, a tenth of a second's at worst.
PER_TURN: Final = 8


class Backlog:
    """Does work in the order in which it is added: at once while there is little, or else when `run` has its turns.

    `done` is called after some of it was done later.
    """

    def __init__(self, done: Work) -> None:
        self._done = done
        self._waiting: deque[Work] = deque()
        self._work = trio.Event()
        self._room = AT_ONCE

    def begin(self) -> None:
        """What is added from now on belongs to one change of the metadata."""
        self._room = AT_ONCE

    def add(self, work: Work) -> None:
        if self._room and not self._waiting:
            self._room -= 1
            work()
        else:
            self._waiting.append(work)
            self._work.set()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._waiting:
                for _ in range(min(PER_TURN, len(self._waiting))):
                    self._waiting.popleft()()
                self._done()
                await trio.lowlevel.checkpoint()
