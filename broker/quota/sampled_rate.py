"""The rate of a client's usage over the last windows, and the pause that brings it within a quota. Pure."""

from math import inf

from broker.replication.throttles import WindowedRate


class SampledRate(WindowedRate):
    """Usage per second over `quota.window.num` windows, as in Kafka's Rate.

    The time counts from the oldest sample, and all windows but the last are taken as elapsed from the beginning. A
    client that was idle may therefore use at once what its quota allows in these windows.
    """

    def delay_ms(self, limit: float, now_ms: float) -> float:
        """The pause after which the rate is `limit`, if nothing more is recorded; 0 or less within the limit.

        A file may set `max.connection.creation.rate` to 0, a rate that is never reached again.
        """
        self._drop_old(now_ms)
        if limit <= 0:
            return inf if self._size > 0 else 0.0
        return self._size / limit * 1000 - self._elapsed_ms(now_ms)

    def unused(self, limit: float) -> float:
        """The amount that may be recorded from now on, at any time, without exceeding `limit`; negative if none may.

        The time of all windows but the last counts as elapsed always, and samples that are dropped only add to it.
        """
        return limit * (self._windows - 1) * self._window_ms / 1000 - self._size

    def is_idle(self, now_ms: float) -> bool:
        """True if nothing was recorded in the last windows: a new rate is the same."""
        self._drop_old(now_ms)
        return not self._samples

    def _elapsed_ms(self, now_ms: float) -> float:
        elapsed_ms = now_ms - self._samples[0].began_ms if self._samples else 0.0
        missing = self._windows - 1 - int(elapsed_ms / self._window_ms)
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1.0)
