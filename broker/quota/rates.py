"""Rates over windows, token buckets, and the throttle time in a response. Pure: times are arguments."""

from math import floor, inf
from typing import Final

from broker.replication.throttles import WindowedRate
from kraft import lazy_attrs

_INT32_MAX: Final = 2**31 - 1


@lazy_attrs.frozen
class QuotaWindows:
    """`num` windows of `size_seconds`: `quota.window.num` and `.size.seconds`, or the same of `controller.quota`."""

    num: int
    size_seconds: int

    @property
    def seconds(self) -> int:
        """The time of all windows. A token bucket holds what a quota allows in it."""
        return self.num * self.size_seconds

    @property
    def burst_seconds(self) -> int:
        """A client that was idle may use at once what its quota allows in this time."""
        return (self.num - 1) * self.size_seconds

    @property
    def window_ms(self) -> int:
        return self.size_seconds * 1000


def throttle_time_ms(delay_ms: float) -> int:
    """Rounded as in Kafka, half a millisecond up; at most what fits into the field of a response."""
    return max(0, floor(min(delay_ms + 0.5, _INT32_MAX)))


class TokenBucket:
    """Tokens of a client, which limit bursts of costly changes (KIP-599).

    The bucket is full at first; it is exhausted while there are fewer than 0 tokens.

    Unlike a sampled rate, it forgets a burst as fast as it refills: a client that takes 60 tokens too many at a limit
    of 5 per second waits for 12 seconds, however many windows there are.
    """

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._filled_ms = 0.0

    def tokens(self, limit: float, burst: float, now_ms: float) -> float:
        """The tokens at this time, if `limit` are added per second up to `burst`."""
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + limit * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float) -> None:
        """Take tokens, after a call of `tokens` at the same time; more than there are, if the client may."""
        assert self._tokens is not None, "it was filled"
        self._tokens -= count

    def delay_ms(self, limit: float, burst: float, now_ms: float) -> float:
        """The time after which the bucket is not exhausted any more; 0 if it is not."""
        return max(0.0, -self.tokens(limit, burst, now_ms) / limit * 1000)


class SampledRate(WindowedRate):
    """Usage per second over the last `quota.window.num` windows, as in Kafka's Rate.

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
