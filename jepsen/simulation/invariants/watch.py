"""The shape of an invariant, and who looks after all of them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from jepsen.simulation.trace import Event, Trace


class Invariant(Protocol):
    """`kinds` are those of the events that it looks at."""

    kinds: Sequence[str]

    def observe(self, event: Event) -> str | None:
        """The violation that this event shows, or None."""
        ...


class Watch:
    """Shows every event to the invariants that it concerns, and tells `on_violation` what is broken and how.

    It does not raise: an event is traced in the middle of something that might catch it.
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
