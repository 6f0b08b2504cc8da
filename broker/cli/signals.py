"""Handles the signals, and the end of standard input, that ask a command to end."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final

import trio

# Some programs (such as timeout) send a signal to the process and to its group, so that it arrives twice. A person does
# not press Ctrl-C twice within this time.
_SAME_SECONDS: Final = 0.25


async def handle_signals(
    signals: AsyncIterator[int], stop: Callable[[], None], stop_at_once: Callable[[], None]
) -> None:
    """Calls `stop` for the first signal, and `stop_at_once` for a later one, when the user does not want to wait
    longer.
    """
    first: float | None = None
    async for _ in signals:
        if first is None:
            first = trio.current_time()
            stop()
        elif trio.current_time() - first > _SAME_SECONDS:
            stop_at_once()


async def call_at_eof(stop: Callable[[], None]) -> None:
    """Calls `stop` when standard input ends, as it does with the parent process."""
    async with trio.lowlevel.FdStream(sys.stdin.fileno()) as stdin:
        with contextlib.suppress(trio.BrokenResourceError):
            async for _ in stdin:
                pass
    stop()
