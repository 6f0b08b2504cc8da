"""Tasks that an object starts by itself, for what it was asked."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio


class BackgroundTasks:
    """`run` carries the tasks until it is cancelled. Tasks that are started before it begin with it.

    So an object can be used in the same turn of the event loop in which it was made, and its `run` was started.
    """

    def __init__(self) -> None:
        self.has_ended = False
        self._nursery: trio.Nursery | None = None
        self._early: list[Callable[[], Awaitable[Any]]] = []

    def start_soon(self, task: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Start a task; does nothing after the end, when it would be cancelled at once."""
        if self._nursery is not None:
            self._nursery.start_soon(task, *arguments)
        elif not self.has_ended:
            self._early.append(partial(task, *arguments))

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                for task in self._early:
                    self._nursery.start_soon(task)
                self._early.clear()
                await trio.sleep_forever()
        finally:
            self._nursery, self.has_ended = None, True
