"""The time that a replica goes by: that in which its process runs.

A process that was stopped, or found no CPU for long, can tell nothing of the others by how long that was. What they
sent meanwhile lies unread in its sockets, and where the whole machine stood still they are where they were. Did that
time count, a leader would find its majority silent and a follower its leader, each time, before they look.
"""

from collections.abc import Callable
from typing import Final

# A deadline is noticed this late only where the process did not run.
OVERSLEPT_MS: Final = 100


class RunningTime:
    """Milliseconds that never go back, of a `clock` in seconds, less what was overslept."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._overslept_ms = 0.0
        self._latest_ms = clock() * 1000
        self._forgiven_ms = -1.0

    @property
    def in_full_ms(self) -> float:
        """The time, if whatever was overslept since `now_ms` was called last counted."""
        return max(self._latest_ms, self._clock() * 1000 - self._overslept_ms)

    def count_in_full(self) -> float:
        """Have that count, and return the time."""
        self._latest_ms = self.in_full_ms
        return self._latest_ms

    def now_ms(self, due_ms: float) -> float:
        """The time, with `due_ms` being the next at which something was to be done.

        Who overslept that finds itself halfway to it, when the process may well have stopped, and has the other half
        to hear of the others. It happens once: a process that is always late has to come to an end as well.
        """
        now_ms = self.in_full_ms
        if now_ms > due_ms + OVERSLEPT_MS and due_ms != self._forgiven_ms:
            self._forgiven_ms = due_ms
            woke_ms = max(self._latest_ms, (self._latest_ms + due_ms) / 2)
            self._overslept_ms += now_ms - woke_ms
            now_ms = woke_ms
        self._latest_ms = now_ms
        return now_ms

    def clock_at(self, time_ms: float) -> float:
        """What the clock is going to show then, should nothing be overslept any more."""
        return (time_ms + self._overslept_ms) / 1000
