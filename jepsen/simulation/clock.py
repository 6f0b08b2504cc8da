"""Virtual time: a heap of events, which fire when no task can run."""

import heapq
from collections.abc import Callable
from math import inf
from typing import Any

import trio

# The wall clocks' time when a simulation begins, in seconds since 1970.
WALL_EPOCH_S = 1_700_000_000.0

# Trio has one idle round while it shuts down. More of them in a row mean that no event will ever happen.
_IDLE_ROUNDS_MAX = 3


STUCK = "no task can run, no event is due and no deadline is set"


class Deadlock(RuntimeError):
    """No task can run, no event is due, and no deadline is set: the simulation would wait forever."""


def _nothing() -> None:
    pass


class VirtualClock(trio.abc.Clock):
    """Seconds since the simulation began, which advance only while every task waits.

    Trio asks for the time to sleep when no task is runnable. Only then may time advance. So this is where events of the
    network and the disks happen, up to the next deadline of a task.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.is_runnable: Callable[[], bool] = bool  # whether a task can run
        self.events_fired = 0
        self.on_stuck: Callable[[], None] | None = None  # called once before Stuck is raised; may make a task runnable
        self.before_it_moves: Callable[[], None] = _nothing
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._idle_rounds = 0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now

    def at(self, when: float, event: Callable[..., None], *args: Any) -> None:
        """Schedule `event(*args)` at `when`. Events of the same time keep the order of the calls."""
        self._serial += 1
        heapq.heappush(self._events, (when, self._serial, event, args))

    def after(self, seconds: float, event: Callable[..., None], *args: Any) -> None:
        self.at(self.now + seconds, event, *args)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        self.before_it_moves()
        is_runnable, events = self.is_runnable, self._events
        if is_runnable():
            return 0
        while events and events[0][0] <= deadline:
            when, _, event, args = heapq.heappop(events)
            if when > self.now:
                self.now = when
            self.events_fired += 1
            self._idle_rounds = 0
            event(*args)
            if is_runnable():
                return 0
        if deadline == inf:
            self._idle()
        else:
            self._idle_rounds = 0
            self.now = max(self.now, deadline)
        return 0

    def _idle(self) -> None:
        self._idle_rounds += 1
        if self._idle_rounds > _IDLE_ROUNDS_MAX:
            way_out, self.on_stuck = self.on_stuck, None
            if way_out is None:
                raise Deadlock(STUCK)  # Trio does not survive this exception
            way_out()
