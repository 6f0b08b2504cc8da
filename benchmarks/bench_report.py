"""This project's nodes beside Apache Kafka's on the same machine, with the same loads, in alternating rounds.

    python -m benchmarks.bench_report [--groups start node cluster] [--only WORDS...] [--rounds 5] [--seconds 1]
                                      [--one-core] [--page] [--from FILE]

The groups are the start of a node, one node, and three nodes with three replicas. Both nodes or clusters of a group run
during all of its loads, and may use every core, as in normal use. With --one-core, each single node is bound to the
first core and its load to the others. A ratio tells how many times better this project's node is: above 1, it is better
than Apache Kafka.

All figures are written to a file under benchmarks/results. With --page, the page docs/benchmarks.md and its plots are
made of them, or without a run of the file that --from names. Only a run of all loads with at least five rounds may
become that page: other pages are made beside their file.

Apache Kafka comes from Maven Central; without java or mvn the run is skipped with a message, and the exit code is 0.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import apache_kafka, load_parts, machine, processes, report, report_page, report_rows
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.clusters import Cluster, apache_kafka_cluster, kraft_cluster
from benchmarks.figures import Series
from benchmarks.peers import Kraft, Peer, touch_memory
from benchmarks.rounds import alternate, exit_code
from benchmarks.tls_peers import TlsKafka, TlsKraft, new_certificates

DOCS = Path(__file__).resolve().parents[1] / "docs"
PUBLISHED = DOCS / "benchmarks.json"


class NothingChosen(Exception):
    """No load has a name with the words of --only."""


class NoResult(Exception):
    """The file of --from has no result of a run."""


def measure_starts(options: argparse.Namespace) -> Series:
    kinds: Sequence[type[Peer]] = (Kraft, ApacheKafka)
    series = Series([kind.name for kind in kinds])
    for _ in range(options.rounds if report_rows.is_chosen("start-up", options.only) else 0):
        for kind in kinds:
            series.add(kind.name, load_parts.startup(kind))
    return series


def measure_nodes(options: argparse.Namespace) -> Series:
    series = Series([Kraft.name, ApacheKafka.name])
    with new_certificates() as certificates, ExitStack() as stack:
        parts = report_rows.chosen(report_rows.node_parts(stack, certificates), options.only)
        if not parts:
            return series
        peers = [stack.enter_context(kind(certificates)) for kind in (TlsKraft, TlsKafka)]
        if options.one_core:
            server_cores, load_cores = processes.cores()
            for peer in peers:
                peer.pin(server_cores)
            os.sched_setaffinity(0, load_cores)
        alternate(peers, parts, series, options.rounds, options.seconds)
    return series


def measure_clusters(options: argparse.Namespace) -> Series:
    clusters: list[Cluster] = []
    with ExitStack() as stack:
        parts = report_rows.chosen(report_rows.cluster_parts(stack, lambda: clusters[1]), options.only)
        if not parts:
            return Series([])
        clusters += [stack.enter_context(make()) for make in (kraft_cluster, apache_kafka_cluster)]
        series = Series([cluster.name for cluster in clusters])
        alternate(clusters, parts, series, options.rounds, options.seconds)
    return series


GROUPS = {"start": measure_starts, "node": measure_nodes, "cluster": measure_clusters}


def run(options: argparse.Namespace) -> tuple[Path, int]:
    """Measure the chosen groups, print their tables, and save the result. Returns its file and the exit code.

    Raises NothingChosen.
    """
    described, began = machine.describe_run(), time.monotonic()
    touch_memory()
    found = {}
    for name in options.groups:
        series = GROUPS[name](options)
        if not series.measured and not series.failed:
            continue
        found[name] = series
        print(f"\n{series.table()}", flush=True)
    if not found:
        raise NothingChosen
    result = {
        "run": {**described, "duration": f"{(time.monotonic() - began) / 60:.1f} minutes"},
        "rounds": options.rounds,
        "seconds": options.seconds,
        "complete": set(options.groups) == GROUPS.keys() and not options.only and not options.one_core,
        "groups": {
            name: {"nodes": series.nodes, "figures": series.as_json(), "failed": series.failed}
            for name, series in found.items()
        },
    }
    return report.save("report", result), exit_code(found.values())


def write_page(file: Path) -> Path:
    """Make the page of the result in a file, and its plots, in docs or beside the file. Returns the page.

    Raises NoResult.
    """
    try:
        result = json.loads(file.read_text())
        published = report_page.may_be_published(result) or file.resolve() == PUBLISHED
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoResult(f"{file} has no result of a run: {error}") from error
    directory = DOCS if published else file.with_suffix("")
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob("benchmark-*.svg"):
        old.unlink()
    for name, image in report_page.plots(result).items():
        (images / name).write_text(image)
    page = directory / "benchmarks.md"
    page.write_text(report_page.page(result))
    if published:
        PUBLISHED.write_text(file.read_text())
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_report")
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="only loads whose names contain one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="length of a measured round")
    parser.add_argument("--one-core", action="store_true", help="bind each single node to one core, its load to others")
    parser.add_argument("--page", action="store_true", help="make the page of the result")
    parser.add_argument("--from", type=Path, dest="file", metavar="FILE", help="make the page of this result")
    options = parser.parse_args(arguments)
    if options.file:
        try:
            print(write_page(options.file))
        except NoResult as why:
            parser.error(str(why))
        return 0
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    try:
        path, code = run(options)
    except NothingChosen:
        parser.error(f"no load of {' '.join(options.groups)} has a name with {' or '.join(options.only)}")
    print(f"\n{path}")
    if options.page:
        print(write_page(path))
    return code


if __name__ == "__main__":
    sys.exit(main())
