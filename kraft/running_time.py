"""The clock of a replica, which leaves out the time in which its process did not run.

A process that was suspended, or that got no CPU for long, knows nothing about the silence of its peers: their messages
are unread in its sockets, and if the whole machine was suspended, they were suspended, too. With an ordinary clock, a
leader would resign and a follower would give up its leader after every suspension, before reading these messages.
"""

from collections.abc import Callable
from typing import Final

# A deadline is noticed this late only if the process did not run.
OVERSLEPT_MS: Final = 100


class RunningTime:
    """A monotonic clock in milliseconds, based on `clock` in seconds, without the overslept time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._overslept_ms = 0.0
        self._latest_ms = clock() * 1000
        self._forgiven_ms = -1.0

    @property
    def in_full_ms(self) -> float:
        """The time, including any time that was overslept since the last call of `now_ms`."""
        return max(self._latest_ms, self._clock() * 1000 - self._overslept_ms)

    def count_in_full(self) -> float:
        """Include the overslept time for good, and return the time."""
        self._latest_ms = self.in_full_ms
        return self._latest_ms

    def now_ms(self, due_ms: float) -> float:
        """The time, where `due_ms` is the next deadline.

        If the process overslept the deadline, the time is set to half of the way to it. The process has the other half
        to read the messages of its peers. This happens once per deadline, so that deadlines also expire in a process
        that is always late.
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
        """The value of `clock`, in seconds, at `time_ms`, unless more time is overslept."""
        return (time_ms + self._overslept_ms) / 1000
