"""One, two and four brokers of one host (`kraft start --brokers`) under the same loads: CPU time per request.

    python -m benchmarks.bench_host_brokers [--rounds 3] [--seconds 3] [--partitions 8]

The topics have as many partitions for each number of brokers. The client and the brokers share the machine: where it
has few cores, throughput does not show what more brokers could do. CPU time does; it is that of all brokers together.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks import client_loads, processes, report, topics
from benchmarks.figures import Figure, Series
from benchmarks.load_parts import FilledTopics, LoadPart, consuming, cpu_use, idle, plain_load, producing
from benchmarks.peers import Kraft, Subject, touch_memory
from benchmarks.rounds import alternate, exit_code

BROKERS = (1, 2, 4)
_RECORD_BYTES = 1_000
_IN_FLIGHT = 32


class KraftHost(Kraft):
    """Several brokers under one supervisor. One broker is a node without a supervisor."""

    def __init__(self, brokers: int) -> None:
        super().__init__({"kraft.brokers": str(brokers)})
        self.name = f"{brokers} broker{'s' * (brokers > 1)}"
        self._brokers = brokers

    def start(self) -> None:
        self.launch()
        self.wait_serving(self._brokers)

    def cpu_seconds(self) -> float:
        return sum(map(processes.cpu_seconds, processes.family(self.pid)))


def small_requests(partitions: int) -> LoadPart:
    """One record per request, to all partitions in turn."""
    what = f"produce 100 B, one record per request, {_IN_FLIGHT} in flight"

    def part(peer: Subject, seconds: float) -> list[Figure]:
        with topics.topic(peer, partitions) as topic, cpu_use(peer) as used:
            # Without this, the client would stay with one partition for 10 ms, and so with one broker.
            configs = {"sticky.partitioning.linger.ms": 0, "enable.idempotence": False}
            seen = client_loads.one_record_requests(peer.bootstrap, topic, _IN_FLIGHT, seconds, **configs)
        return [
            Figure(what, "requests/s", seen.requests_per_s),
            *used.figures(what, seen.requests, "request"),
        ]

    return part


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_host_brokers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="length of a measured round of each load")
    parser.add_argument("--partitions", type=int, default=8)
    options = parser.parse_args(arguments)
    touch_memory()
    load = plain_load(_RECORD_BYTES, options.partitions)
    with ExitStack() as stack:
        hosts = [stack.enter_context(KraftHost(brokers)) for brokers in BROKERS]
        series = Series([host.name for host in hosts])
        parts = {
            "produce": producing(load),
            "consume": consuming(load, FilledTopics(stack)),
            "requests": small_requests(options.partitions),
            "idle": idle,
        }
        alternate(hosts, parts, series, options.rounds, options.seconds)
    print(report.table(["figure", "unit", *series.nodes], series.rows()), end="\n\n")
    print(report.save("host-brokers", {"figures": series.as_json()}))
    return exit_code([series])


if __name__ == "__main__":
    sys.exit(main())
