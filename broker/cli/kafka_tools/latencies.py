"""The counts and reports of the producer performance test (ProducerPerformance.java)."""

from array import array
from collections.abc import Sequence
from typing import Final

_SAMPLES_MAX: Final = 500_000
_MIB: Final = 1024 * 1024
_PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)


class Latencies:
    """The records that were acknowledged, in all and since the last report. Times are in milliseconds."""

    def __init__(
        self, expected_count: int, reporting_interval_ms: int, now_ms: int, *, is_steady: bool = False
    ) -> None:
        self.is_quiet = False
        self._interval_ms = reporting_interval_ms
        self._is_steady = is_steady
        self._sampling = max(expected_count // _SAMPLES_MAX, 1)
        self._samples = array("q")
        self._start_ms = self._window_start_ms = now_ms
        self._count = self._bytes = self._latency_sum = self._latency_max = 0
        self._window_count = self._window_bytes = self._window_sum = self._window_max = 0

    def record(self, latency_ms: int, size: int, now_ms: int) -> list[str]:
        """Counts a record. Returns the lines of a report, if one is due."""
        if self._count % self._sampling == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._latency_sum += latency_ms
        self._latency_max = max(self._latency_max, latency_ms)
        self._window_count += 1
        self._window_bytes += size
        self._window_sum += latency_ms
        self._window_max = max(self._window_max, latency_ms)
        if now_ms - self._window_start_ms < self._interval_ms:
            return []
        lines = ["In steady state."] if self._is_steady and self._count == self._window_count else []
        if not self.is_quiet:
            lines.append(self._window_line(now_ms))
        self._begin_window(now_ms)
        return lines

    def total_line(self, now_ms: int) -> str:
        per_s, mib_per_s = _rates(self._count, self._bytes, now_ms - self._start_ms)
        kind = " steady state" if self._is_steady else ""
        percentiles = _percentiles(sorted(self._samples))
        average = self._latency_sum / max(self._count, 1)
        return (
            f"{self._count}{kind} records sent, {per_s:f} records/sec ({mib_per_s:.2f} MB/sec), "
            f"{average:.2f} ms avg latency, {self._latency_max:.2f} ms max latency, {percentiles[0]} ms 50th, "
            f"{percentiles[1]} ms 95th, {percentiles[2]} ms 99th, {percentiles[3]} ms 99.9th."
        )

    def _window_line(self, now_ms: int) -> str:
        per_s, mib_per_s = _rates(self._window_count, self._window_bytes, now_ms - self._window_start_ms)
        return (
            f"{self._window_count} records sent, {per_s:.1f} records/sec ({mib_per_s:.2f} MB/sec), "
            f"{self._window_sum / self._window_count:.1f} ms avg latency, {self._window_max:.1f} ms max latency."
        )

    def _begin_window(self, now_ms: int) -> None:
        self._window_start_ms = now_ms
        self._window_count = self._window_bytes = self._window_sum = self._window_max = 0


def _rates(count: int, size: int, elapsed_ms: int) -> tuple[float, float]:
    """Returns records and MiB per second."""
    seconds = max(elapsed_ms, 1) / 1000
    return count / seconds, size / seconds / _MIB


def _percentiles(latencies: Sequence[int]) -> list[int]:
    if not latencies:
        return [0] * len(_PERCENTILES)
    return [latencies[int(share * len(latencies))] for share in _PERCENTILES]
