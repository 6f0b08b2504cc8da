"""One node with confluent-kafka as the client: throughput, small requests, latency, start-up, memory.

python -m benchmarks.bench_clients [--rounds 3] [--seconds 2] [--only WORDS] [--peer kraft|kafka]
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks import load_parts, report, report_rows
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.figures import Series
from benchmarks.peers import Kraft, Peer, touch_memory


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_clients")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="length of a measured round")
    parser.add_argument("--only", default="", help="only the parts whose name contains this")
    parser.add_argument("--peer", choices=["kraft", "kafka"], default="kraft")
    options = parser.parse_args(arguments)
    make: type[Peer] = ApacheKafka if options.peer == "kafka" else Kraft
    touch_memory()
    series = Series([make.name])
    for _ in range(options.rounds if options.only in "start-up" else 0):
        series.add(make.name, load_parts.startup(make))
    with ExitStack() as stack:
        peer = stack.enter_context(make())
        parts = {**report_rows.client_parts(load_parts.FilledTopics(stack)), "memory": load_parts.memory}
        for name, part in parts.items():
            for _ in range(options.rounds if options.only in name else 0):
                series.add(make.name, part(peer, options.seconds))
    print(report.table(["figure", "unit", make.name], series.rows()))
    print(f"\n{report.save('clients', {'figures': series.as_json()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
