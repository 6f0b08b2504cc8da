"""How a command heeds the signals that ask it to end."""

from collections.abc import AsyncIterator, Callable
from typing import Final

import trio

# Some that run commands send a signal to the process and to its group (timeout does), so that it arrives twice. Nobody
# presses Ctrl-C that fast.
_SAME_SECONDS: Final = 0.25


async def heed(signals: AsyncIterator[int], stop: Callable[[], None], stop_at_once: Callable[[], None]) -> None:
    """The first signal asks for a clean end; who sends another one later has waited long enough."""
    first: float | None = None
    async for _ in signals:
        if first is None:
            first = trio.current_time()
            stop()
        elif trio.current_time() - first > _SAME_SECONDS:
            stop_at_once()
