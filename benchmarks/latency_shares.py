"""Latencies of small writes at rates that are shares of the largest rate of Apache Kafka's cluster.

Both clusters get the same rates. Requests are sent when they are due, whether or not earlier ones are answered, and a
latency is counted from when its request was due.
"""

from collections.abc import Callable
from typing import Final

from benchmarks import loadgen, protocol, raw_loads, topics
from benchmarks.clusters import Cluster
from benchmarks.figures import Figure
from benchmarks.load_parts import cpu_figures
from benchmarks.report import median

SHARES_PERCENT: Final = (20, 50, 80)
OFFERED, ANSWERED = "offered", "answered"
_RECORD_BYTES: Final = 100
_ACKS_ALL: Final = -1
# A JVM compiles code that runs often, so the first runs do not count.
_LARGEST_RUNS, _UNCOUNTED_RUNS = 6, 3
_WARM_UP_S: Final = 0.2


def load_name(percent: int) -> str:
    return f"raw: Produce {_RECORD_BYTES} B at {percent} % of Kafka's largest rate"


class LatencyShares:
    """The parts of one run. The first one that is measured finds the largest rate of the reference, in requests/s."""

    def __init__(self, reference: Callable[[], Cluster]) -> None:
        self._reference = reference
        self._largest_rate = 0.0

    def parts(self) -> dict[str, Callable[[Cluster, float], list[Figure]]]:
        return {load_name(percent): self._part(percent) for percent in SHARES_PERCENT}

    def _part(self, percent: int) -> Callable[[Cluster, float], list[Figure]]:
        name = load_name(percent)

        def part(cluster: Cluster, seconds: float) -> list[Figure]:
            if not self._largest_rate:
                runs = [_run(self._reference(), seconds)[0] for _ in range(_LARGEST_RUNS)]
                self._largest_rate = median([each.requests_per_s for each in runs[_UNCOUNTED_RUNS:]])
            rate = self._largest_rate * percent / 100
            result, server_cpu_us = _run(cluster, seconds, rate)
            return [
                Figure(f"{name}: p50", "ms", result.p50_us / 1e3, False),
                Figure(f"{name}: p99", "ms", result.p99_us / 1e3, False),
                Figure(f"{name}: {OFFERED}", "requests/s", rate),
                Figure(f"{name}: {ANSWERED}", "requests/s", result.requests_per_s),
                *cpu_figures(name, server_cpu_us, result.client_cpu_us, "us/request"),
            ]

        return part


def _run(cluster: Cluster, seconds: float, rate: float = 0) -> tuple[loadgen.Result, float]:
    """Write to one partition through its leader, at a rate or as fast as possible. Returns the result, and the CPU time
    of all nodes per request in microseconds.
    """
    with topics.topic(cluster, 1) as topic:
        leader = cluster.by_id(topics.leader(cluster, topic))
        request = protocol.produce(topic, 0, protocol.batch(1, _RECORD_BYTES), acks=_ACKS_ALL)
        error_offset = protocol.produce_error_offset(topic)
        topics.ask_until_served(leader, request, error_offset)
        cpu_s = cluster.cpu_seconds()
        result = loadgen.run(
            leader.port,
            request,
            connections=raw_loads.CONNECTIONS,
            depth=raw_loads.DEEP,
            seconds=seconds,
            warm_up_s=_WARM_UP_S,
            rate=rate,
            error_offset=error_offset,
        )
        cpu_s = cluster.cpu_seconds() - cpu_s
    # The nodes are as busy during the warm-up.
    return result, cpu_s / (result.requests_per_s * (result.seconds + _WARM_UP_S)) * 1e6
