"""Requests: their counts, and the histograms of their times."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from broker.metrics.catalogue import requests
from broker.metrics.histogram import Histogram
from broker.metrics.metric import Family, Metric, Sample
from broker.net.turn_timer import RequestTime
from broker.wire.api import APIS

# Milliseconds. A small request takes some ten microseconds; a rebalance or an empty fetch waits for seconds.
TIME_BOUNDS_MS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)

_TIMES: Final[Mapping[Metric, Callable[[RequestTime], float]]] = {
    requests.TOTAL_TIME: lambda time: time.total_s,
    requests.REQUEST_QUEUE_TIME: lambda time: time.queue_s,
    requests.LOCAL_TIME: lambda time: time.local_s,
    requests.REMOTE_TIME: lambda time: time.remote_s,
    requests.THROTTLE_TIME: lambda time: time.throttle_s,
    requests.RESPONSE_QUEUE_TIME: lambda time: time.response_queue_s,
    requests.RESPONSE_SEND_TIME: lambda time: time.send_s,
}


class RequestCollector:
    """`record` is for a `TurnTimer`. `add_counts` adds the counts of a dispatcher, by API and version in one number."""

    def __init__(self) -> None:
        self._counts: list[Mapping[int, int]] = []
        self._histograms: dict[int, dict[Metric, Histogram]] = {}

    def add_counts(self, counts: Mapping[int, int]) -> None:
        """Include the requests of a kind of listeners."""
        self._counts.append(counts)

    def record(self, time: RequestTime) -> None:
        """Record the times of one request of an API that is served."""
        histograms = self._histograms.get(time.api_key)
        if histograms is None:
            histograms = self._histograms[time.api_key] = {metric: Histogram(TIME_BOUNDS_MS) for metric in _TIMES}
        for metric, seconds in _TIMES.items():
            histograms[metric].record(seconds(time) * 1000, time.weight)

    def collect(self) -> Iterable[Family]:
        yield requests.REQUESTS, self._requests()
        for metric in _TIMES:
            yield (
                metric,
                [
                    Sample((APIS[api_key].name,), histograms[metric].distribution)
                    for api_key, histograms in sorted(self._histograms.items())
                ],
            )

    def _requests(self) -> Iterator[Sample]:
        total: dict[int, int] = {}
        for counts in self._counts:
            for key, count in counts.items():
                total[key] = total.get(key, 0) + count
        for key, count in sorted(total.items()):
            yield Sample((APIS[key >> 16].name, str(key & 0xFFFF)), count)
