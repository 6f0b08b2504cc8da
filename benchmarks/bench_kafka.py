"""This project's node and Apache Kafka, single nodes on the same machine, under the same loads, round about round.

    python -m benchmarks.bench_kafka [--rounds 3] [--seconds 2] [--only WORDS]

Apache Kafka comes from Maven Central; without java or mvn the comparison is skipped, said so, and ends with 0. Both
nodes stay up for the whole run. Raw loads pin each server to the same single core and the load to the others; client
loads leave scheduling to the kernel. A ratio says how many times better this project's node is: above 1 is ahead.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from benchmarks import apache_kafka, figures, processes, report
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.figures import Part, Series
from benchmarks.peers import Kraft, Peer, touch_memory

# A JVM compiles what it runs often; this many rounds are run before the measured ones, on both nodes.
WARM_UP_ROUNDS = 1
KINDS: dict[str, Callable[[], Peer]] = {Kraft.name: Kraft, ApacheKafka.name: ApacheKafka}


def alternate(peers: Sequence[Peer], parts: Mapping[str, Part], series: Series, rounds: int, seconds: float) -> None:
    for name, part in parts.items():
        print(f"... {name}", file=sys.stderr)
        for measured in [False] * WARM_UP_ROUNDS + [True] * rounds:
            for peer in peers:
                found = part(peer, seconds)
                if measured:
                    series.add(peer.name, found)


def run_all(series: Series, rounds: int, seconds: float, only: str) -> None:
    everywhere = os.sched_getaffinity(0)
    server_cores, load_cores = processes.cores()
    for _ in range(rounds if only in "start-up" else 0):
        for name, make in KINDS.items():
            series.add(name, figures.startup(make))
    raw = {name: part for name, part in figures.raw_parts().items() if only in name}
    clients = {name: part for name, part in figures.client_parts().items() if only in name}
    with ExitStack() as stack:
        peers = [stack.enter_context(make()) for make in KINDS.values()]
        for peer in peers:
            peer.pin(server_cores)
        os.sched_setaffinity(0, load_cores)
        alternate(peers, raw, series, rounds, seconds)
        os.sched_setaffinity(0, everywhere)
        for peer in peers:
            peer.pin(everywhere)
        alternate(peers, clients, series, rounds, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_kafka")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="length of a measured round")
    parser.add_argument("--only", default="", help="only the parts whose name contains this")
    options = parser.parse_args(arguments)
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    touch_memory()
    series = Series(list(KINDS))
    run_all(series, options.rounds, options.seconds, options.only)
    print(report.table(["figure", "unit", *KINDS, "ratio", "aim", ""], series.rows()))
    print(f"\n{report.save('kafka', {'figures': series.as_json()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
