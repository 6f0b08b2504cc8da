"""A result that is available now or later: a value or an error."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from broker.coordinator.runtime.decision import CoordinatorError

T = TypeVar("T")


class Completion(Generic[T]):
    """Holds a result that is set once. Later attempts to set it have no effect, so that a late event needs no check."""

    __slots__ = ("_callbacks", "_outcome", "done")

    def __init__(self) -> None:
        self.done = False
        self._outcome: T | CoordinatorError | None = None
        self._callbacks: list[Callable[[T | CoordinatorError], None]] = []

    @property
    def outcome(self) -> T | CoordinatorError:
        """The value or the error. The completion must be done."""
        assert self.done, "the completion is not done"
        return self._outcome  # type: ignore[return-value]  # T may be None

    def complete(self, value: T) -> None:
        """Completes with a value."""
        self.settle(value)

    def fail(self, error: CoordinatorError) -> None:
        """Completes with an error."""
        self.settle(error)

    def settle(self, outcome: T | CoordinatorError) -> None:
        """Completes with a value or an error."""
        if not self.done:
            self.done = True
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback(outcome)

    def then(self, callback: Callable[[T | CoordinatorError], None]) -> None:
        """Calls `callback` with the value or the error: at once if the completion is done, otherwise when it completes.
        The callback must not raise.
        """
        if self.done:
            callback(self.outcome)
        else:
            self._callbacks.append(callback)


def completed(value: T) -> Completion[T]:
    """Returns a completion that is done with this value."""
    completion: Completion[T] = Completion()
    completion.complete(value)
    return completion


def failed(error: CoordinatorError) -> Completion[Any]:
    """Returns a completion that is done with this error."""
    completion: Completion[Any] = Completion()
    completion.fail(error)
    return completion


def gather(completions: Sequence[Completion[T]]) -> Completion[list[T | CoordinatorError]]:
    """Completes when all the completions are done, with their outcomes in the same order."""
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
