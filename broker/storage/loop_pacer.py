"""Lets other tasks run during loops over many logs."""

from typing import Final

import trio

# Logs handled before other tasks run; takes less than a millisecond if there is nothing to do.
LOGS_PER_TURN: Final = 100
# If there is more to do, other tasks run after this time. For a log with new records, retention completes the indexes,
# which takes 150 us, or twice that if their files are created: 100 such logs in a row blocked the loop for 30 ms.
TURN_S: Final = 0.001


class LoopPacer:
    """Lets other tasks run during a loop over many logs: after every LOGS_PER_TURN logs, or after TURN_S."""

    def __init__(self) -> None:
        self._begin()

    async def checkpoint(self) -> None:
        """Call this after each log."""
        self._count += 1
        if self._count >= LOGS_PER_TURN or trio.current_time() >= self._end:
            await trio.lowlevel.checkpoint()
            self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._end = trio.current_time() + TURN_S
