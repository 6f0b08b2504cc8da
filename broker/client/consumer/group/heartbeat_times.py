"""When a member of a group sends its heartbeats."""

from collections.abc import Callable

import trio

from broker.client.backoff import Backoff
from broker.client.consumer.group.signal import Signal


class HeartbeatTimes:
    """Heartbeats are sent at the coordinator's interval, at once if they are urgent, and after a pause if one failed.

    `changed` is notified with every change of the membership. Times are of Trio's clock.
    """

    def __init__(self, backoff: Backoff, changed: Signal) -> None:
        self._backoff = backoff
        self._changed = changed
        self._failures = 0
        self._not_before = 0.0
        self._due = 0.0

    async def wait_due(self, *, is_outside: Callable[[], bool], is_urgent: Callable[[], bool]) -> None:
        """Waits until the next heartbeat is due, or urgent; as long as the member is outside of its group, none is."""
        while True:
            await trio.sleep_until(self._not_before)
            while is_outside():
                await self._changed.wait()
            if is_urgent() or trio.current_time() >= self._due:
                return
            with trio.move_on_at(self._due):
                await self._changed.wait()

    def hurry(self) -> None:
        """Makes the next heartbeat due at once, unless one has failed just now."""
        self._due = 0.0

    def answered(self, interval_ms: int) -> None:
        """The coordinator has answered, and expects the next heartbeat after the interval."""
        self._failures = 0
        self._due = trio.current_time() + interval_ms / 1000

    def failed(self) -> None:
        """A heartbeat was lost or refused for now: the next one follows after a pause, even an urgent one."""
        self._failures += 1
        self._due = self._not_before = trio.current_time() + self._backoff.pause_s(self._failures)
