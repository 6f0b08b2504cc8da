"""A token bucket, which limits bursts of costly changes (KIP-599). Pure: times are arguments."""


class TokenBucket:
    """Tokens of a client. The bucket is full at first; it is exhausted while there are fewer than 0 tokens.

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
