"""Replication throttles, which limit how fast out-of-sync replicas are copied (KIP-73). Pure: times are arguments.

Each broker has one rate for what it sends as a leader and one for what it receives as a follower; each topic lists the
replicas that are throttled. All bytes of throttled replicas count for the rate, but only out-of-sync replicas are held
back: an in-sync replica must stay in sync.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from broker.config.effective import EffectiveConfig
from kraft import lazy_attrs

# The quota if none is set: Java's largest long.
UNLIMITED: Final = (1 << 63) - 1
# Held partitions are read again once the quota allows what it allows in this time.
_GRAIN_SECONDS: Final = 0.1


class WindowedRate:
    """Bytes per second over the last windows (`replication.quota.window.num` of `.size.seconds`).

    As in Kafka's SimpleRate, time counts from the first window with data, and for at least one window, so that the
    first bytes do not result in a high rate.
    """

    def __init__(self, windows: int, window_ms: float) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[_Sample] = deque(maxlen=windows + 1)  # the oldest began before the time that counts

    def record(self, size: float, now_ms: float) -> None:
        self._drop_old(now_ms)
        if not self._samples or now_ms - self._samples[-1].began_ms >= self._window_ms:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[-1]
        sample.size += size
        sample.last_ms = now_ms

    def rate(self, now_ms: float) -> float:
        self._drop_old(now_ms)
        return self._size / self._elapsed_ms(now_ms) * 1000

    def allowance(self, quota: float, now_ms: float) -> float:
        """How many more bytes may be recorded now before the rate exceeds `quota`; negative if it does already."""
        self._drop_old(now_ms)
        return quota * self._elapsed_ms(now_ms) / 1000 - self._size

    def time_within(self, quota: float, now_ms: float) -> float:
        """The time at which the rate is down to `quota`, if nothing more is recorded."""
        self._drop_old(now_ms)
        if not self._samples or self.rate(now_ms) <= quota:
            return now_ms
        oldest = self._samples[0]
        forgotten_ms = oldest.last_ms + self._windows * self._window_ms
        return min(forgotten_ms, oldest.began_ms + self._size / quota * 1000 if quota else inf)

    @property
    def _size(self) -> float:
        return sum(sample.size for sample in self._samples)

    def _elapsed_ms(self, now_ms: float) -> float:
        return max(now_ms - self._samples[0].began_ms, self._window_ms) if self._samples else self._window_ms

    def _drop_old(self, now_ms: float) -> None:
        while self._samples and now_ms - self._samples[0].last_ms >= self._windows * self._window_ms:
            self._samples.popleft()


@lazy_attrs.define(eq=False)
class _Sample:
    began_ms: float
    size: float = 0
    last_ms: float = -inf


class Throttle:
    """A rate and its quota in bytes per second; `quota` returns the quota in force."""

    def __init__(
        self, windows: int, window_ms: float, *, quota: Callable[[], float], now_ms: Callable[[], float]
    ) -> None:
        self._rate = WindowedRate(windows, window_ms)
        self._quota = quota
        self._now_ms = now_ms

    def record(self, size: int) -> None:
        """Count bytes of throttled replicas."""
        self._rate.record(size, self._now_ms())

    @property
    def rate(self) -> float:
        """The rate in bytes per second that is compared with the quota."""
        return self._rate.rate(self._now_ms())

    @property
    def allowance(self) -> float:
        """The bytes that may be copied now for out-of-sync replicas; 0 or negative if the quota is exceeded."""
        quota = self._quota()
        return inf if quota >= UNLIMITED else self._rate.allowance(quota, self._now_ms())

    @property
    def has_room(self) -> bool:
        """Whether enough bytes may be copied that reading the held partitions is worthwhile."""
        return self.allowance >= min(self._quota(), UNLIMITED) * _GRAIN_SECONDS

    @property
    def wait_ms(self) -> float:
        """The time for which throttled, out-of-sync replicas must not be copied; 0 if the quota is not exceeded."""
        quota = self._quota()
        if quota >= UNLIMITED:
            return 0
        now_ms = self._now_ms()
        return self._rate.time_within(quota, now_ms) - now_ms


@lazy_attrs.frozen
class ReplicationThrottles:
    """One broker's throttles: of what it sends as a leader, of what it receives as a follower, and of what it copies
    between its log directories (KIP-113).
    """

    leader: Throttle
    follower: Throttle
    log_dirs: Throttle

    @classmethod
    def of(cls, effective: EffectiveConfig, now_ms: Callable[[], float]) -> "ReplicationThrottles":
        """Throttles whose quotas follow the configuration in force; their windows stay as the node was started with."""
        config = effective.config
        windows, window_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000

        def throttle(quota: Callable[[], int]) -> Throttle:
            return Throttle(windows, window_ms, quota=quota, now_ms=now_ms)

        return cls(
            leader=throttle(lambda: effective.config.dynamic_only.leader_replication_throttled_rate),
            follower=throttle(lambda: effective.config.dynamic_only.follower_replication_throttled_rate),
            log_dirs=Throttle(
                config.alter_log_dirs_replication_quota_window_num,
                config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
                quota=lambda: effective.config.dynamic_only.replica_alter_log_dirs_io_max_bytes_per_second,
                now_ms=now_ms,
            ),
        )
