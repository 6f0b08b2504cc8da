"""One, two and four brokers of one host (`kraft start --brokers`) under the same loads: CPU time per request.

    python -m benchmarks.bench_host_brokers [--rounds 3] [--seconds 3] [--partitions 8]

The topics have as many partitions for each number of brokers, and producers write the largest batches, whose number
does not depend on the speed of the brokers. Small requests are so many in flight for each broker: a broker that finds
several in its buffers spends less on each. The client and the brokers share the machine: where it
has few cores, throughput does not show what more brokers could do. CPU time does; it is that of all brokers together.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks import client_loads, processes, report, topics
from benchmarks.figures import Figure, Series
from benchmarks.load_parts import FilledTopics, Load, LoadPart, consuming, cpu_use, idle, plain_load
from benchmarks.peers import Kraft, Subject, touch_memory
from benchmarks.rounds import alternate, exit_code

BROKERS = (1, 2, 4)
_RECORD_BYTES = 1_000
_IN_FLIGHT = 8
_WRITTEN_RECORDS_PER_S = 100_000


class KraftHost(Kraft):
    """Several brokers under one supervisor. One broker is a node without a supervisor."""

    def __init__(self, brokers: int) -> None:
        super().__init__({"kraft.brokers": str(brokers)})
        self.name = f"{brokers} broker{'s' * (brokers > 1)}"
        self.brokers = brokers

    def start(self) -> None:
        self.launch()
        self.wait_serving(self.brokers)

    def cpu_seconds(self) -> float:
        return sum(map(processes.cpu_seconds, processes.family(self.pid)))


def bulk_produce(load: Load) -> LoadPart:
    """A fixed number of records to all partitions in turn."""
    name = f"produce {load.name}"

    def part(peer: Subject, seconds: float) -> list[Figure]:
        records = int(_WRITTEN_RECORDS_PER_S * seconds)
        with topics.topic(peer, load.partitions) as topic, cpu_use(peer) as used:
            client_loads.fill(peer.bootstrap, topic, load.partitions, records, load.values)
        return used.figures(name, records, "record")

    return part


def small_requests(partitions: int) -> Callable[[KraftHost, float], list[Figure]]:
    """One record per request, to all partitions in turn."""
    what = f"produce 100 B, one record per request, {_IN_FLIGHT} in flight per broker"

    def part(peer: KraftHost, seconds: float) -> list[Figure]:
        with topics.topic(peer, partitions) as topic, cpu_use(peer) as used:
            # Without this, the client would stay with one partition for 10 ms, and so with one broker.
            configs = {"sticky.partitioning.linger.ms": 0, "enable.idempotence": False}
            seen = client_loads.one_record_requests(
                peer.bootstrap, topic, _IN_FLIGHT * peer.brokers, seconds, **configs
            )
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
            "produce": bulk_produce(load),
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
