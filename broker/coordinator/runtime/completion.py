"""A value that is there now or later, or an error in its place."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from broker.coordinator.runtime.decision import CoordinatorError

T = TypeVar("T")


class Completion(Generic[T]):
    """Completed once; what comes later has no effect, so that a late event needs no check."""

    __slots__ = ("_callbacks", "_outcome", "done")

    def __init__(self) -> None:
        self.done = False
        self._outcome: T | CoordinatorError | None = None
        self._callbacks: list[Callable[[T | CoordinatorError], None]] = []

    @property
    def outcome(self) -> T | CoordinatorError:
        """The value, or the error, of a completion that is done."""
        assert self.done, "nobody knows yet"
        return self._outcome  # type: ignore[return-value]  # T may be None

    def complete(self, value: T) -> None:
        """Give out the value."""
        self.settle(value)

    def fail(self, error: CoordinatorError) -> None:
        """Give out the error."""
        self.settle(error)

    def settle(self, outcome: T | CoordinatorError) -> None:
        """Give out what came of it."""
        if not self.done:
            self.done = True
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback(outcome)

    def then(self, callback: Callable[[T | CoordinatorError], None]) -> None:
        """Call with the value or the error: now, where it is there, or as soon as it is. It must not fail."""
        if self.done:
            callback(self.outcome)
        else:
            self._callbacks.append(callback)


def completed(value: T) -> Completion[T]:
    """One that is done."""
    completion: Completion[T] = Completion()
    completion.complete(value)
    return completion


def failed(error: CoordinatorError) -> Completion[Any]:
    """One that has failed."""
    completion: Completion[Any] = Completion()
    completion.fail(error)
    return completion


def gather(completions: Sequence[Completion[T]]) -> Completion[list[T | CoordinatorError]]:
    """Complete with what came of each, in their order, when all are done."""
    gathered: Completion[list[T | CoordinatorError]] = Completion()
    left = len(completions)

    def one_more(outcome: T | CoordinatorError) -> None:
        nonlocal left
        left -= 1
        if not left:
            gathered.complete([each.outcome for each in completions])

    if not completions:
        gathered.complete([])
    for completion in completions:
        completion.then(one_more)
    return gathered
