"""The interface of an invariant, and the watch that checks all invariants of a simulation."""

from collections.abc import Callable, Sequence
from typing import Protocol

from jepsen.simulation.trace import Event, Trace


class Invariant(Protocol):
    """A property that holds after every event. `kinds` are the kinds of events that can violate it."""

    kinds: Sequence[str]

    def observe(self, event: Event) -> str | None:
        """The violation that this event shows, or None."""
        ...


class Watch:
    """Passes every event to the invariants of its kind, and calls `on_violation` with a description of each violation.

    It does not raise, because the code that traces an event might catch the exception.
    """

    def __init__(self, trace: Trace, invariants: Sequence[Invariant], on_violation: Callable[[str], None]) -> None:
        self._by_kind: dict[str, list[Invariant]] = {}
        for invariant in invariants:
            for kind in invariant.kinds:
                self._by_kind.setdefault(kind, []).append(invariant)
        self._on_violation = on_violation
        trace.listeners.append(self._observe)

    def _observe(self, event: Event) -> None:
        for invariant in self._by_kind.get(event.kind, ()):
            wrong = invariant.observe(event)
            if wrong is not None:
                self._on_violation(f"{type(invariant).__name__}: {wrong}")
