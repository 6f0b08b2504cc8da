"""The lag of a streaming query, and the rate at which records are appended to its partitions."""

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.spark.offsets import Offsets

# Rates are means over this time, from samples that are at least so far apart.
_WINDOW_S: Final = 60.0
_SAMPLE_S: Final = 1.0


class Progress:
    """Keeps the latest offsets that were seen, and derives the lag and the rate from them."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._latest: Offsets = {}
        self._appended = 0
        # When how many offsets had been appended since the first observation.
        self._samples: deque[tuple[float, int]] = deque()

    @property
    def latest(self) -> Offsets:
        return self._latest

    def observe(self, latest: Offsets) -> None:
        """Takes the ends of the partitions, as the brokers have just reported them."""
        known = self._latest
        self._appended += sum(max(offset - known.get(each, offset), 0) for each, offset in latest.items())
        self._latest = latest
        now_s = self._now_s()
        if not self._samples or now_s - self._samples[-1][0] >= _SAMPLE_S:
            self._samples.append((now_s, self._appended))
        while len(self._samples) > 2 and now_s - self._samples[1][0] >= _WINDOW_S:
            self._samples.popleft()

    def metrics(self, consumed: Offsets) -> dict[str, float]:
        """The metrics of Spark's connector under its names, the sum of the lag, and the rows appended per second.

        `consumed` is where the current batch ends.
        """
        lags = [max(offset - consumed[each], 0) for each, offset in self._latest.items() if each in consumed]
        return {
            "minOffsetsBehindLatest": min(lags, default=0),
            "maxOffsetsBehindLatest": max(lags, default=0),
            "avgOffsetsBehindLatest": sum(lags) / len(lags) if lags else 0.0,
            "totalOffsetsBehindLatest": sum(lags),
            "appendedRowsPerSecond": self._rate(),
        }

    def _rate(self) -> float:
        if not self._samples:
            return 0.0
        since_s, appended = self._samples[0]
        elapsed_s = self._now_s() - since_s
        return round((self._appended - appended) / elapsed_s, 1) if elapsed_s > 0 else 0.0
