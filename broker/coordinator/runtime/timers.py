"""The timers of one shard, by their keys."""

from collections.abc import Callable, Hashable

import trio

from broker.coordinator.runtime.shard import OnTimer
from broker.net.deadlines import Deadline, Deadlines


class _Timer:
    __slots__ = ("deadline", "decide", "due")

    def __init__(self, due: float, decide: OnTimer) -> None:
        self.due = due
        self.decide = decide
        self.deadline: Deadline | None = None


class ShardTimers:
    """Implements `broker.coordinator.runtime.shard.Timers`. `fire` is called with each timer that is due.

    Each heartbeat of a member puts its timer off, which only notes the new time. At the old time the timer is set
    again.
    """

    def __init__(self, deadlines: Deadlines, fire: Callable[[Hashable, OnTimer], None]) -> None:
        self._deadlines = deadlines
        self._fire = fire
        self._timers: dict[Hashable, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def schedule(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        due = trio.current_time() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = _Timer(due, decide)
        timer.due, timer.decide = due, decide
        if timer.deadline is None or due < timer.deadline.when:
            self._set(key, timer)

    def schedule_once(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        if key not in self._timers:
            self.schedule(key, delay_ms, decide)

    def postpone(self, key: Hashable, delay_ms: float) -> None:
        timer = self._timers.get(key)
        if timer is not None:
            self.schedule(key, delay_ms, timer.decide)

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None and timer.deadline is not None:
            timer.deadline.cancel()

    def cancel_all(self) -> None:
        for key in list(self._timers):
            self.cancel(key)

    def _set(self, key: Hashable, timer: _Timer) -> None:
        if timer.deadline is not None:
            timer.deadline.cancel()
        timer.deadline = self._deadlines.add(timer.due, lambda: self._fire_if_due(key, timer))

    def _fire_if_due(self, key: Hashable, timer: _Timer) -> None:
        timer.deadline = None
        if timer.due > trio.current_time():
            self._set(key, timer)
        else:
            del self._timers[key]
            self._fire(key, timer.decide)
