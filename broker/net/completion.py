"""Completions: results that are set once and later, and a request's wait for one, which has a deadline."""

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

import trio

from broker.net.deadlines import Deadline, Deadlines

T = TypeVar("T")


class Completion(Generic[T]):
    """Holds an outcome that is set once. Later attempts to set it have no effect: a late event needs no check.

    There is no Trio primitive in it. Handlers wait for one with `yield from`, see `broker.server.scheduler`.
    """

    __slots__ = ("_callback", "done", "outcome")

    # Not set before the completion is done.
    outcome: T

    def __init__(self) -> None:
        self.done = False
        self._callback: Callable[[T], None] | None = None

    def complete(self, outcome: T) -> None:
        """Set the outcome, and call the callbacks with it."""
        if not self.done:
            self.done = True
            self.outcome = outcome
            callback, self._callback = self._callback, None
            if callback is not None:
                callback(outcome)

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the outcome, at once if it is set. The callback must not raise."""
        first = self._callback
        if self.done:
            callback(self.outcome)
        elif first is None:
            self._callback = callback
        else:
            self._callback = _both(first, callback)

    def __iter__(self) -> Generator["Completion[T]", T, T]:
        """Wait for the outcome in a handler: `outcome = yield from completion`."""
        if self.done:
            return self.outcome
        outcome = yield self
        return outcome

    async def wait(self) -> T:
        """Wait for the outcome in a task."""
        if not self.done:
            done = trio.Event()
            self.then(lambda _: done.set())
            await done.wait()
        return self.outcome

    def abandon(self) -> None:
        """Called when the request's connection is closed. By default the work continues, for its effects."""


class RequestWait(Completion[T]):
    """A wait that serves one request only: for its deadline, and for events at the places where a subclass waits.

    It ends when it is completed or abandoned; after that no callback is called. It costs an object and an
    entry in a heap; a task per parked Produce or Fetch would cost more than the request itself.
    """

    __slots__ = ("_deadline",)

    def __init__(self) -> None:
        super().__init__()
        self._deadline: Deadline | None = None

    def expire_in(self, deadlines: Deadlines, seconds: float, expire: Callable[[], None]) -> None:
        """Call `expire`, which has to complete the wait, after this time, unless the wait has ended by then."""
        self._deadline = deadlines.add(trio.current_time() + seconds, expire)

    def complete(self, outcome: T) -> None:
        if not self.done:
            self._end()
            self.outcome = outcome
            callback, self._callback = self._callback, None
            if callback is not None:
                callback(outcome)

    def abandon(self) -> None:
        if not self.done:
            self._end()
            self._callback = None

    def stop_waiting(self) -> None:
        """Deregister from the events that this waits for. Called once, when the wait ends."""

    def _end(self) -> None:
        self.done = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.stop_waiting()


def _both(first: Callable[[T], None], second: Callable[[T], None]) -> Callable[[T], None]:
    def call(outcome: T) -> None:
        first(outcome)
        second(outcome)

    return call
