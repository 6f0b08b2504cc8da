"""This project's node and Apache Kafka, single nodes on the same machine with the same loads, in alternating rounds.

    python -m benchmarks.bench_kafka [--rounds 3] [--seconds 2] [--only WORDS] [--one-core]

Apache Kafka comes from Maven Central; without java or mvn the comparison is skipped with a message, and the exit code
is 0. Both nodes run during the whole benchmark and may use every core, as in normal use. With --one-core, each server
is bound to the first core and the load to the others. A ratio tells how many times better this project's node is: above
1, it is better than Apache Kafka.
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

# A JVM compiles code that runs often. So both nodes first run this many unmeasured rounds of each load.
WARM_UP_ROUNDS = 2
KINDS: dict[str, Callable[[], Peer]] = {Kraft.name: Kraft, ApacheKafka.name: ApacheKafka}


def alternate(peers: Sequence[Peer], parts: Mapping[str, Part], series: Series, rounds: int, seconds: float) -> None:
    for name, part in parts.items():
        print(f"... {name}", file=sys.stderr)
        for measured in [False] * WARM_UP_ROUNDS + [True] * rounds:
            for peer in peers:
                found = part(peer, seconds)
                if measured:
                    series.add(peer.name, found)


def run_all(series: Series, rounds: int, seconds: float, only: str, one_core: bool) -> None:
    for _ in range(rounds if only in "start-up" else 0):
        for name, make in KINDS.items():
            series.add(name, figures.startup(make))
    parts = {name: part for name, part in (figures.raw_parts() | figures.client_parts()).items() if only in name}
    with ExitStack() as stack:
        peers = [stack.enter_context(make()) for make in KINDS.values()]
        if one_core:
            server_cores, load_cores = processes.cores()
            for peer in peers:
                peer.pin(server_cores)
            os.sched_setaffinity(0, load_cores)
        alternate(peers, parts, series, rounds, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_kafka")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="length of a measured round")
    parser.add_argument("--only", default="", help="only the parts whose name contains this")
    parser.add_argument("--one-core", action="store_true", help="bind each server to one core, the load to the others")
    options = parser.parse_args(arguments)
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    touch_memory()
    series = Series(list(KINDS))
    run_all(series, options.rounds, options.seconds, options.only, options.one_core)
    print(report.table(["figure", "unit", *KINDS, "ratio", "aim", ""], series.rows()))
    print(f"\n{report.save('kafka', {'figures': series.as_json()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
