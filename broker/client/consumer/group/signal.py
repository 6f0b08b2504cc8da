"""A condition that tasks wait for: the task that changes its subject notifies all that wait."""

import trio


class Signal:
    """Wakes its waiters, which check their condition again and wait again if it does not hold."""

    def __init__(self) -> None:
        self._next = trio.Event()

    def notify(self) -> None:
        notified, self._next = self._next, trio.Event()
        notified.set()

    async def wait(self) -> None:
        """Returns with the next `notify`."""
        await self._next.wait()
