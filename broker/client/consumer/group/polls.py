"""Tracks the application's last poll: a member that stops polling leaves its group after `max.poll.interval.ms`."""

from math import inf

import trio

from broker.client.consumer.group.signal import Signal


class PollTimer:
    """Runs from the subscription on, again after every poll; stands still while nothing is subscribed."""

    def __init__(self, interval_ms: float) -> None:
        self._interval_s = interval_ms / 1000
        self._deadline = inf
        self._restarted = Signal()

    @property
    def is_expired(self) -> bool:
        return trio.current_time() >= self._deadline

    def restart(self) -> None:
        was_expired = self.is_expired
        self._deadline = trio.current_time() + self._interval_s
        if was_expired:
            self._restarted.notify()

    def stop(self) -> None:
        self._deadline = inf

    async def wait_expired(self) -> None:
        while not self.is_expired:
            await trio.sleep(min(self._deadline - trio.current_time(), self._interval_s))

    async def wait_polled(self) -> None:
        """Returns at once unless the time is over, else with the next poll."""
        while self.is_expired:
            await self._restarted.wait()
