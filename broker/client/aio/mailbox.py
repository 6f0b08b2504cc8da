"""Passes what the background loop has for an asyncio loop: many functions with one wake-up."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Mailbox:
    """The functions that an asyncio loop is to call, in order. The background loop alone posts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_awake = False

    def post(self, function: Callable[..., object], *args: Any) -> bool:
        """Has the asyncio loop call a function. False if that loop is closed, and calls nothing any more."""
        self._posted.append((function, args))
        if self._is_awake:
            return True
        self._is_awake = True
        try:
            self.loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # it is closed
            self._is_awake = False
            self._posted.clear()
            return False
        return True

    def _deliver(self) -> None:
        # Cleared first: what is posted from here on wakes the loop again, unless it is found below.
        self._is_awake = False
        while self._posted:
            function, args = self._posted.popleft()
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - such as the application's callback; the others are called
                self.loop.call_exception_handler({"message": "a callback of a client failed", "exception": error})
