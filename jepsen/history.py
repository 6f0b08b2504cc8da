"""The history: the operations of all clients with their results, which the checkers judge."""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import attrs


class Outcome(Enum):
    """`OK` and `FAIL` are certain. `INFO` is unknown: the operation may have taken effect, may still do so, or never
    will.
    """

    INFO = "info"
    OK = "ok"
    FAIL = "fail"


@attrs.define(eq=False)
class Operation:
    """An operation of `client`, from its invocation to its completion, in seconds. Its outcome is `INFO` while unknown.

    `serial` counts the client's operations from zero. `incarnation` is the number of times that the server had lost
    unsynced storage (in a power cut) when the connection was made that carried the response.
    """

    client: str
    function: str
    value: Any
    invoked_at: float
    outcome: Outcome = Outcome.INFO
    completed_at: float | None = None
    result: Any = None
    incarnation: int = 0
    serial: int = 0

    def __str__(self) -> str:
        end = "" if self.completed_at is None else f"{self.completed_at:.3f}"
        return (
            f"[{self.invoked_at:.3f}..{end}] {self.client} {self.function} {self.value} "
            f"-> {self.outcome.value} {self.result}"
        )


class History:
    """Operations in the order of their invocation.

    `note` is called twice for each operation: when it is invoked, and when it completes. Clients in several threads may
    share a history, if each client stays in one thread.
    """

    def __init__(self, now: Callable[[], float], note: Callable[[Operation], None] = lambda operation: None) -> None:
        self._now = now
        self._note = note
        self._serials: Counter[str] = Counter()
        self.operations: list[Operation] = []

    def now(self) -> float:
        """The present time, in seconds."""
        return self._now()

    def invoke(self, client: str, function: str, value: Any, *, at: float | None = None) -> Operation:
        """Begin an operation. `at` is the time of its invocation, for a client that decides afterwards to record it."""
        began = self._now() if at is None else at
        operation = Operation(client, function, value, began, serial=self._serials[client])
        self._serials[client] += 1
        self.operations.append(operation)
        self._note(operation)
        return operation

    def ok(self, operation: Operation, result: Any, *, incarnation: int = 0) -> None:
        self._complete(operation, Outcome.OK, result, incarnation)

    def fail(self, operation: Operation, reason: str) -> None:
        self._complete(operation, Outcome.FAIL, reason, 0)

    def info(self, operation: Operation, reason: str) -> None:
        self._complete(operation, Outcome.INFO, reason, 0)

    def of(self, *functions: str, outcome: Outcome | None = None) -> Iterator[Operation]:
        for operation in self.operations:
            if operation.function in functions and outcome in (None, operation.outcome):
                yield operation

    def counts(self) -> dict[str, int]:
        """The number of operations by function and outcome."""
        return dict(Counter(f"{each.function} {each.outcome.value}" for each in self.operations))

    def _complete(self, operation: Operation, outcome: Outcome, result: Any, incarnation: int) -> None:
        operation.outcome, operation.result, operation.incarnation = outcome, result, incarnation
        operation.completed_at = self._now()
        self._note(operation)
