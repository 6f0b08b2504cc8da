"""The transactions of a recorded producer. Sends of a transaction get their outcomes when it is decided."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs

from jepsen.history import Outcome
from jepsen.testing.histories.recording.history_file import ClientLog

# The number and the function of an operation, and its result if the transaction is committed, as JSON; None if it is
# not known then.
_Told: TypeAlias = tuple[int, str, str | None]
_ABORTED: Final = json.dumps("the transaction was aborted")
_UNKNOWN: Final = json.dumps("the outcome is not known")


@attrs.define(eq=False)
class OpenTransaction:
    """A transaction, with the operations that have ended in it. `outcome` is None until it is decided."""

    name: str
    told: list[_Told] = attrs.field(factory=list)
    may_be_committed: bool = False
    outcome: Outcome | None = None


class TransactionLog:
    """The transactions of one producer, of which one is open at a time.

    `is_abortable` tells of an error of a commit that the transaction was certainly not committed.
    """

    def __init__(self, log: ClientLog, is_abortable: Callable[[BaseException], bool]) -> None:
        self._log = log
        self._is_abortable = is_abortable
        self._count = 0
        self.open: OpenTransaction | None = None

    def begin(self) -> None:
        self._count += 1
        self.open = OpenTransaction(f"{self._log.name}/{self._count}")

    def ended(self, transaction: OpenTransaction, serial: int, function: str, result: str | None) -> None:
        """Record that an operation of a transaction has ended; `result` is None unless it was acknowledged."""
        if transaction.outcome is None:
            transaction.told.append((serial, function, result))
        else:
            self._complete(transaction.outcome, (serial, function, result))

    @contextmanager
    def committing(self) -> Iterator[None]:
        """A block that commits the open transaction."""
        transaction, serial = self.open, self._decide(is_commit=True)
        try:
            yield
        except BaseException as error:
            is_certain = self._is_abortable(error)
            if transaction is not None and not is_certain:
                transaction.may_be_committed = True
            self._end(serial, Outcome.FAIL if is_certain else Outcome.INFO, json.dumps(str(error)))
            raise
        self._end(serial, Outcome.OK)
        self._finish(Outcome.OK)

    @contextmanager
    def aborting(self) -> Iterator[None]:
        """A block that aborts the open transaction. Nothing can commit it from then on, even if the abort fails."""
        transaction, serial = self.open, self._decide(is_commit=False)
        outcome = Outcome.INFO if transaction is not None and transaction.may_be_committed else Outcome.FAIL
        try:
            yield
        except BaseException as error:
            self._end(serial, Outcome.INFO, json.dumps(str(error)))
            self._finish(outcome)
            raise
        self._end(serial, Outcome.OK)
        self._finish(outcome)

    def _decide(self, *, is_commit: bool) -> int | None:
        if self.open is None:
            return None
        value = json.dumps({"name": self.open.name, "is_commit": is_commit})
        return self._log.invoke("end-transaction", value)

    def _end(self, serial: int | None, outcome: Outcome, reason: str = "null") -> None:
        if serial is not None:
            self._log.complete(serial, outcome, "end-transaction", reason)

    def _finish(self, outcome: Outcome) -> None:
        transaction, self.open = self.open, None
        if transaction is not None:
            transaction.outcome = outcome
            for told in transaction.told:
                self._complete(outcome, told)
            transaction.told.clear()

    def _complete(self, outcome: Outcome, told: _Told) -> None:
        serial, function, result = told
        outcome = Outcome.INFO if outcome is Outcome.OK and result is None else outcome
        reason = {Outcome.OK: result or "null", Outcome.FAIL: _ABORTED, Outcome.INFO: _UNKNOWN}[outcome]
        self._log.complete(serial, outcome, function, reason)
