"""Checks that operations on one object are linearizable: each takes effect at one instant between call and return.

The search is Wing and Gong's (Testing and verifying concurrent objects, 1993), with Lowe's cache of the configurations
that have been seen (Testing for linearizability, 2017). An operation with an unknown outcome (`Outcome.INFO`) may take
effect at any time after its call, or never.
"""

from collections.abc import Hashable, Sequence
from math import inf
from typing import Final, Protocol

import attrs

from jepsen.history import Operation, Outcome

# The search is exponential in the number of operations with an unknown outcome. This limit is reached in seconds.
CONFIGURATIONS_MAX: Final = 500_000


class Model(Protocol):
    """The sequential specification of one object. States are immutable."""

    @property
    def initial(self) -> Hashable: ...

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        """Apply an operation. Returns whether its result is possible in `state`, and the next state.

        An operation without a result is always possible.
        """
        ...


@attrs.define(eq=False)
class _Entry:
    """A call or (without `operation`) a return, in a doubly linked list in order of time."""

    index: int
    operation: Operation | None
    time: float
    match: "_Entry | None" = None
    before: "_Entry | None" = None
    after: "_Entry | None" = None

    def unlink(self) -> None:
        assert self.before is not None, "the head of the list is never removed"
        self.before.after = self.after
        if self.after is not None:
            self.after.before = self.before

    def relink(self) -> None:
        assert self.before is not None, "the head of the list is never removed"
        self.before.after = self
        if self.after is not None:
            self.after.before = self


def find_contradiction(operations: Sequence[Operation], model: Model) -> Operation | None:
    """Return an operation that no order explains; None if all operations are linearizable.

    The caller leaves out operations that certainly failed. The returned operation is the first to return among those
    that the longest partial order could not place. The result is None, too, if CONFIGURATIONS_MAX configurations were
    searched without a decision.
    """
    search = _Search(operations, model)
    while not search.is_done:
        assert search.at is not None, "a return that is still to come ends every attempt"
        if search.at.operation is not None:
            search.try_call(search.at, search.at.operation)
        elif not search.backtrack(search.at):
            return search.culprit
    return None


class _Search:
    """A partial order under construction: `chosen` are its calls, each with the state before. `at` is the next entry to
    try.
    """

    def __init__(self, operations: Sequence[Operation], model: Model) -> None:
        self.culprit: Operation | None = None
        self._model = model
        self._head = _linked(operations)
        self.at = self._head.after
        self._to_place = sum(operation.outcome is Outcome.OK for operation in operations)
        self._placed, self._furthest = 0, -1
        self._state, self._mask = model.initial, 0
        self._chosen: list[tuple[_Entry, Operation, Hashable]] = []
        self._seen: set[tuple[int, Hashable]] = set()

    @property
    def is_done(self) -> bool:
        return self._placed == self._to_place or len(self._seen) >= CONFIGURATIONS_MAX

    def try_call(self, call: _Entry, operation: Operation) -> None:
        """Append the call to the order if possible, or else continue with the next entry."""
        fits, following = self._model.step(self._state, operation)
        configuration = (self._mask | 1 << call.index, following)
        if not fits or configuration in self._seen:
            self.at = call.after
            return
        self._seen.add(configuration)
        self._chosen.append((call, operation, self._state))
        self._mask, self._state = configuration
        self._placed += operation.outcome is Outcome.OK
        _remove_call(call)
        self.at = self._head.after

    def backtrack(self, returned: _Entry) -> bool:
        """Backtrack: an operation returned before it was placed. Returns False if there is no choice to undo."""
        assert returned.match is not None, "every return has its call"
        if self._placed > self._furthest:
            self._furthest, self.culprit = self._placed, returned.match.operation
        if not self._chosen:
            return False
        call, operation, self._state = self._chosen.pop()
        self._mask &= ~(1 << call.index)
        self._placed -= operation.outcome is Outcome.OK
        _put_back(call)
        self.at = call.after
        return True


def _linked(operations: Sequence[Operation]) -> _Entry:
    entries = []
    for index, operation in enumerate(operations):
        call = _Entry(index, operation, operation.invoked_at)
        certain = operation.outcome is Outcome.OK and operation.completed_at is not None
        call.match = _Entry(index, None, operation.completed_at if certain and operation.completed_at else inf, call)
        entries += [call, call.match]
    # At equal times calls come first: a call at the exact time of a return may have preceded it.
    entries.sort(key=lambda entry: (entry.time, entry.operation is None))
    head = last = _Entry(-1, None, -inf)
    for entry in entries:
        last.after, entry.before = entry, last
        last = entry
    return head


def _remove_call(call: _Entry) -> None:
    assert call.match is not None, "every call has its return"
    call.unlink()
    call.match.unlink()


def _put_back(call: _Entry) -> None:
    assert call.match is not None, "every call has its return"
    call.match.relink()
    call.relink()
