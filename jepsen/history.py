"""What clients did and what they were told: the one thing that checkers judge."""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import attrs


class Outcome(Enum):
    """`OK` and `FAIL` are certain. `INFO`: the operation may have happened, may not have, or may happen yet."""

    INFO = "info"
    OK = "ok"
    FAIL = "fail"


@attrs.define(eq=False)
class Operation:
    """One thing that `client` asked for, between two times in seconds. It is `INFO` until it is known to be more.

    `serial` counts the client's operations from zero. `life` counts the losses of unsynced storage (power cuts) before
    the connection was made that the result came over.
    """

    client: str
    function: str
    value: Any
    invoked_at: float
    outcome: Outcome = Outcome.INFO
    completed_at: float | None = None
    result: Any = None
    life: int = 0
    serial: int = 0

    def __str__(self) -> str:
        end = "" if self.completed_at is None else f"{self.completed_at:.3f}"
        return (
            f"[{self.invoked_at:.3f}..{end}] {self.client} {self.function} {self.value} "
            f"-> {self.outcome.value} {self.result}"
        )


class History:
    """Operations in the order in which they were begun.

    `note` is told of each twice, when it is begun and when it is completed. Clients in several threads may share a
    history, as long as each client stays in one thread.
    """

    def __init__(self, now: Callable[[], float], note: Callable[[Operation], None] = lambda operation: None) -> None:
        self._now = now
        self._note = note
        self._serials: Counter[str] = Counter()
        self.operations: list[Operation] = []

    def invoke(self, client: str, function: str, value: Any, *, at: float | None = None) -> Operation:
        """`at` is when it was begun, where that is known to be worth an operation only later."""
        began = self._now() if at is None else at
        operation = Operation(client, function, value, began, serial=self._serials[client])
        self._serials[client] += 1
        self.operations.append(operation)
        self._note(operation)
        return operation

    def ok(self, operation: Operation, result: Any, *, life: int = 0) -> None:
        self._complete(operation, Outcome.OK, result, life)

    def fail(self, operation: Operation, reason: str) -> None:
        self._complete(operation, Outcome.FAIL, reason, 0)

    def info(self, operation: Operation, reason: str) -> None:
        self._complete(operation, Outcome.INFO, reason, 0)

    def of(self, *functions: str, outcome: Outcome | None = None) -> Iterator[Operation]:
        for operation in self.operations:
            if operation.function in functions and outcome in (None, operation.outcome):
                yield operation

    def counts(self) -> dict[str, int]:
        """How many operations of each kind had each outcome."""
        return dict(Counter(f"{each.function} {each.outcome.value}" for each in self.operations))

    def _complete(self, operation: Operation, outcome: Outcome, result: Any, life: int) -> None:
        operation.outcome, operation.result, operation.life = outcome, result, life
        operation.completed_at = self._now()
        self._note(operation)
