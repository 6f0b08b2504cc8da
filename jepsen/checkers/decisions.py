"""Transactions with the decisions of their applications."""

import attrs

from jepsen.history import History, Operation, Outcome
from jepsen.values import Decision, Transaction


@attrs.frozen
class DecidedTransaction:
    """A transaction and the application's decision; `decision` is None if it never decided."""

    operation: Operation
    decision: Operation | None

    @property
    def value(self) -> Transaction:
        value: Transaction = self.operation.value
        return value

    @property
    def wants_commit(self) -> bool:
        return self.decision is not None and bool(self.decision.value.is_commit)

    @property
    def is_committed(self) -> bool:
        return self.wants_commit and self.decision is not None and self.decision.outcome is Outcome.OK

    @property
    def is_aborted(self) -> bool:
        """True if nothing can have committed it."""
        return not self.wants_commit or (self.decision is not None and self.decision.outcome is Outcome.FAIL)

    @property
    def proof(self) -> tuple[Operation, ...]:
        return (self.operation,) if self.decision is None else (self.operation, self.decision)


def decided_transactions(history: History) -> list[DecidedTransaction]:
    """All transactions, in the order in which they began."""
    decisions: dict[str, Operation] = {}
    for operation in history.of("end-transaction"):
        decision: Decision = operation.value
        before = decisions.get(decision.name)
        # A commit that failed is followed by an abort; the commit may have happened unless it certainly failed.
        if before is None or before.outcome is Outcome.FAIL:
            decisions[decision.name] = operation
    return [DecidedTransaction(each, decisions.get(each.value.name)) for each in history.of("transact")]
