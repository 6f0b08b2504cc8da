"""The operations on registers in a large history: keys that five clients read, write, and compare and set.

A slot is five clients that share one register in each window, like Jepsen's independent keys. So a key has few
operations, because the cost of judging it grows fast with their number.
"""

from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.histories.columns import FAIL, INFO, OK, Integers, OperationColumns, text
from benchmarks.histories.plants import Plants

OPERATIONS_PER_REGISTER: Final = 500
_CLIENTS: Final = 5
_FUNCTIONS: Final = pa.array(["read", "write", "cas"])
_READ, _WRITE, _CAS = range(3)
_SHARES: Final = (0.4, 0.4, 0.2)
# The shares of writes with an unknown outcome, and of refused writes.
_INFO_SHARE: Final = 0.004
_FAIL_SHARE: Final = 0.01
# The longest time that an operation takes before and after its effect, as a fraction of the time between two operations
# of a register. Operations of the same client do not overlap.
_STEPS_MAX: Final = 1.8


def processes_of(slot: int) -> list[str]:
    """The clients of a slot."""
    return [f"r{slot}.{client}" for client in range(_CLIENTS)]


@attrs.frozen
class RegisterWindow:
    """The operations of the clients of all slots in one window of time: `each` operations on a slot's register."""

    slots: int
    each: int
    number: int
    start_ns: int
    end_ns: int
    plants: Plants
    rng: np.random.Generator

    def operations(self) -> OperationColumns:
        slot, at = (axis.ravel() for axis in np.indices((self.slots, self.each)))
        functions = self.rng.choice(3, (self.slots, self.each), p=_SHARES)
        functions[:, 0] = _WRITE
        outcomes = self._outcomes(functions)
        is_found = self.rng.random(functions.shape) < 0.5
        changes = (functions == _WRITE) & (outcomes != FAIL) | (functions == _CAS) & is_found
        states = _states(changes)
        seen = self._seen(functions, states)
        function, outcome, found = functions.ravel(), outcomes.ravel(), is_found.ravel()
        clients = pa.array([name for each in range(self.slots) for name in processes_of(each)])
        return OperationColumns(
            clients.take(pa.array(slot * _CLIENTS + at % _CLIENTS)),
            self.number * -(-self.each // _CLIENTS) + at // _CLIENTS,
            _FUNCTIONS.take(pa.array(function)),
            *self._times(at),
            outcome,
            self._values(slot, at, function, np.where(found, states.ravel(), -2)),
            _results(function, outcome, seen.ravel()),
        )

    def _outcomes(self, functions: Integers) -> Integers:
        chance = self.rng.random(functions.shape)
        is_write = functions == _WRITE
        is_write[:, 0] = False
        outcome = np.full(functions.shape, OK)
        outcome[is_write & (chance < _FAIL_SHARE + _INFO_SHARE)] = FAIL
        outcome[is_write & (chance < _INFO_SHARE)] = INFO
        return outcome

    def _seen(self, functions: Integers, states: Integers) -> Integers:
        """The results of reads: the state, or the first state of all where an anomaly is planted."""
        seen = states.copy()
        for window, slot in self.plants.registers:
            if window == self.number:
                late = np.flatnonzero(functions[slot] == _READ)
                seen[slot, late[late > self.each // 2][0]] = 0
        return seen

    def _times(self, at: Integers) -> tuple[Integers, Integers]:
        step_ns = (self.end_ns - self.start_ns) / (self.each + 2 * _STEPS_MAX)
        middle = self.start_ns + (at + _STEPS_MAX) * step_ns
        before, after = (self.rng.uniform(0.05, _STEPS_MAX, len(at)) * step_ns for _ in range(2))
        return (middle - before).astype(np.int64), (middle + after).astype(np.int64)

    def _values(self, slot: Integers, at: Integers, function: Integers, expected: Integers) -> pa.Array:
        heads = pa.array([f'["{name}", "r{self.number}.' for name in _FUNCTIONS.to_pylist()])
        key = text(heads.take(pa.array(function)), slot, '"')
        written = text(', "v', at, '"')
        # No register ever has the value "none".
        compared = pc.if_else(pa.array(expected == -2), ', "none"', text(", ", _state_text(expected)))
        ends = [
            pc.if_else(pa.array(function == _READ), "", written),
            pc.if_else(pa.array(function == _CAS), compared, ""),
        ]
        return text(key, *ends, "]")


def _states(changes: npt.NDArray[np.bool_]) -> Integers:
    """For each operation, the number of the operation that wrote the state it finds; -1 for none."""
    at = np.where(changes, np.arange(changes.shape[1])[None, :], -1)
    latest = np.maximum.accumulate(at, axis=1)
    return np.concatenate([np.full((len(at), 1), -1), latest[:, :-1]], axis=1)


def _state_text(states: Integers) -> pa.Array:
    return pc.if_else(pa.array(states < 0), "null", text('"v', states, '"'))


def _results(function: Integers, outcome: Integers, seen: Integers) -> pa.Array:
    told = pc.if_else(pa.array(function == _WRITE), "null", _state_text(seen))
    return pc.if_else(pa.array(outcome == OK), told, '"refused"')
