"""Promises about keys that several clients read and write concurrently."""

from collections.abc import Hashable, Iterator, Sequence

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.linearizability import find_contradiction
from jepsen.history import History, Operation, Outcome


class Register:
    """One key: `read` returns its value, `write` sets it, `cas` sets it if the current value is the expected one.

    The result of a `cas` is the value before.
    """

    initial: Hashable = None

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        fits = operation.outcome is not Outcome.OK or operation.function == "write" or operation.result == state
        match operation.value:
            case ("write", _, value):
                return fits, value
            case ("cas", _, value, expected) if expected == state:
                return fits, value
        return fits, state


class RegistersAreLinearizable:
    """Every operation seems to happen at one instant between its call and its return (Herlihy and Wing, 1990)."""

    def check(self, history: History) -> Iterator[Anomaly]:
        by_key: dict[str, list[Operation]] = {}
        for operation in history.of("read", "write", "cas"):
            if operation.outcome is not Outcome.FAIL:
                by_key.setdefault(operation.value[1], []).append(operation)
        for key, operations in by_key.items():
            culprit = find_contradiction(_relevant(operations), Register())
            if culprit is not None:
                yield Anomaly(type(self).__name__, f"no order of the operations on {key} explains it", (culprit,))


def _relevant(operations: Sequence[Operation]) -> list[Operation]:
    """The operations, without those of unknown outcome whose effect no read shows: no order needs them."""
    seen = {operation.result for operation in operations if operation.outcome is Outcome.OK}
    return [
        each for each in operations if each.outcome is Outcome.OK or (each.function != "read" and each.value[2] in seen)
    ]


REGISTER_CHECKERS: tuple[Checker, ...] = (RegistersAreLinearizable(),)
