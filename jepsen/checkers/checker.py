"""The interface of a checker."""

from collections.abc import Iterator
from typing import Protocol

import attrs

from jepsen.history import History, Operation


@attrs.frozen
class Anomaly:
    """A broken promise, and the operations that prove it."""

    promise: str
    what: str
    proof: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join((f"{self.promise}: {self.what}", *map(str, self.proof)))


class Checker(Protocol):
    """Checks one promise, after the history is complete with its final reads."""

    def check(self, history: History) -> Iterator[Anomaly]: ...
