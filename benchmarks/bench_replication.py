"""Three nodes of this project and three of Apache Kafka on the same machine, replicated writes, in alternating rounds.

    python -m benchmarks.bench_replication [--rounds 3] [--seconds 5] [--only WORDS]

Topics have three replicas and min.insync.replicas=2; clients are confluent-kafka's, with acks=all and idempotence. Both
clusters run during the whole benchmark. Apache Kafka comes from Maven Central; without java or mvn the comparison is
skipped with a message, and the exit code is 0. A ratio tells how many times better this project's cluster is.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from benchmarks import apache_kafka, figures, report
from benchmarks.clusters import Cluster, apache_kafka_cluster, kraft_cluster
from benchmarks.figures import LoadPart, Series
from benchmarks.peers import touch_memory

# A JVM compiles code that runs often. So both clusters first run this many unmeasured rounds of each load.
WARM_UP_ROUNDS = 2


def alternate(
    clusters: Sequence[Cluster], parts: Mapping[str, LoadPart], series: Series, rounds: int, seconds: float
) -> None:
    for name, part in parts.items():
        print(f"... {name}", file=sys.stderr)
        for measured in [False] * WARM_UP_ROUNDS + [True] * rounds:
            for cluster in clusters:
                found = part(cluster, seconds)
                if measured:
                    series.add(cluster.name, found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_replication")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="length of a measured round")
    parser.add_argument("--only", default="", help="only the parts whose name contains this")
    options = parser.parse_args(arguments)
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    touch_memory()
    parts = {name: part for name, part in figures.replicated_parts().items() if options.only in name}
    with ExitStack() as stack:
        clusters = [stack.enter_context(make()) for make in (kraft_cluster, apache_kafka_cluster)]
        series = Series([cluster.name for cluster in clusters])
        alternate(clusters, parts, series, options.rounds, options.seconds)
    print(report.table(["figure", "unit", *series.nodes, "ratio", "aim", ""], series.rows()))
    print(f"\n{report.save('replication', {'figures': series.as_json()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
