"""Idempotent and transactional clients on nodes of this project and of Apache Kafka, in alternating rounds.

    python -m benchmarks.bench_transactions [--only idempotence|commits|aborted|ids] [--rounds 3] [--seconds 3]
                                            [--cluster kraft|kafka|both] [--ids 20000]

- idempotence: plain and idempotent writes in turn, by confluent-kafka and by the load generator; single nodes.
- commits: transactions of 100 records, with one producer and with eight; single nodes, and three nodes with three
  replicas.
- aborted: read_committed consumers pass over 1,000,000 aborted records; single nodes.
- ids: 20,000 transactional ids with open transactions on one coordinator of three nodes: its memory, the time without a
  coordinator after its death, and how long timeouts and expiry take. On nodes of this project also how long their event
  loops are held.

Apache Kafka comes from Maven Central; without java or mvn only this project's nodes are measured, and that is said. In
"ratio", values above 1 mean that this project's node is better.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks import (
    apache_kafka,
    client_loads,
    loadgen,
    protocol,
    report,
    topics,
    transaction_loads,
    watched_node,
)
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.clusters import Cluster, apache_kafka_cluster, kraft_cluster
from benchmarks.figures import Figure, Series
from benchmarks.open_transactions import OVERRIDES, OpenTransactions
from benchmarks.peers import Kraft, Peer, Subject, touch_memory
from benchmarks.rounds import alternate, exit_code

SIZES_BYTES: Final = (100, 1024)
RECORDS_PER_TRANSACTION: Final = 100
PRODUCERS: Final = (1, 8)
ABORTED_RECORDS: Final = 1_000_000
# Idempotence may cost this part of the throughput and of the server's CPU time per record.
IDEMPOTENCE_COST_MAX: Final = 0.1
_LIMITED_IN_FLIGHT: Final = {"acks": "all", "max.in.flight": 5}
_NUMBERED_MAX: Final = 60_000
_RAW_DEPTH: Final = 5
_FILLERS: Final = 8

_numbers = itertools.count(1)


# Idempotence


def idempotent_writes(size_bytes: int) -> Callable[[Subject, float], list[Figure]]:
    """Produce with confluent-kafka without and with idempotence, in an order that changes."""

    def write(peer: Subject, seconds: float, *, idempotent: bool) -> tuple[float, float]:
        with topics.topic(peer, 1) as topic:
            cpu = peer.cpu_seconds()
            config = {**_LIMITED_IN_FLIGHT, "enable.idempotence": idempotent}
            wrote = client_loads.produce(peer.bootstrap, topic, client_loads.zeros(size_bytes), seconds, **config)
            return wrote.records_per_s, (peer.cpu_seconds() - cpu) / wrote.records * 1e6

    def part(peer: Subject, seconds: float) -> list[Figure]:
        found = {each: write(peer, seconds, idempotent=each) for each in _both_orders()}
        return _compared(f"produce {size_bytes} B", "records/s", "us/record", found)

    return part


def numbered_writes(size_bytes: int) -> Callable[[Peer, float], list[Figure]]:
    """Send one-record batches with the load generator, without and with producer id and sequence numbers."""

    def write(peer: Peer, seconds: float, *, idempotent: bool) -> tuple[float, float]:
        batch = protocol.batch(1, size_bytes)
        with topics.topic(peer, 1) as topic:
            error_at = protocol.produce_error_offset(topic)
            plain = protocol.produce(topic, 0, batch)
            topics.ask_until_served(peer, plain, error_at)
            numbered = transaction_loads.numbered_requests(topic, batch, _NUMBERED_MAX, next(_numbers))
            result = loadgen.run(
                peer.port,
                numbered if idempotent else protocol.join([plain] * _NUMBERED_MAX),
                depth=_RAW_DEPTH,
                seconds=seconds,
                warm_up_s=min(0.3, seconds / 4),
                # The sequence numbers of a request that is sent a second time would be out of order.
                bytes_max=len(plain) * (_NUMBERED_MAX - _RAW_DEPTH),
                server_pid=peer.pid,
                error_offset=error_at,
            )
            return result.requests_per_s, result.server_cpu_us

    def part(peer: Peer, seconds: float) -> list[Figure]:
        found = {each: write(peer, seconds, idempotent=each) for each in _both_orders()}
        name = f"raw: Produce {size_bytes} B, {_RAW_DEPTH} in flight"
        return _compared(name, "requests/s", "us/request", found)

    return part


def _both_orders() -> list[bool]:
    return [False, True] if next(_numbers) % 2 else [True, False]


def _compared(name: str, per_s: str, cpu: str, found: Mapping[bool, tuple[float, float]]) -> list[Figure]:
    """`found` has throughput and server CPU time, without and with idempotence."""
    (plain, plain_cpu), (idempotent, idempotent_cpu) = found[False], found[True]
    return [
        Figure(f"{name}, plain", per_s, plain),
        Figure(f"{name}, idempotent", per_s, idempotent),
        Figure(f"{name}, idempotent / plain", "throughput", idempotent / plain),
        Figure(f"{name}, plain: server CPU", cpu, plain_cpu, False),
        Figure(f"{name}, idempotent: server CPU", cpu, idempotent_cpu, False),
        Figure(f"{name}, idempotent / plain", "server CPU", idempotent_cpu / plain_cpu, False),
    ]


# Commits


def commits(producers: int) -> Callable[[Subject, float], list[Figure]]:
    def part(peer: Subject, seconds: float) -> list[Figure]:
        with topics.topic(peer, 1) as topic:
            cpu = peer.cpu_seconds()
            seen = transaction_loads.commit(
                peer.bootstrap, topic, producers, RECORDS_PER_TRANSACTION, 100, seconds, f"commits-{producers}"
            )
            cpu = peer.cpu_seconds() - cpu
        what = f"{'node' if peer.replication_factor == 1 else 'cluster'}, {producers} producer{'s' * (producers > 1)}"
        return [
            Figure(f"{what}: transactions", "per s", seen.per_s, aim=1.0),
            Figure(f"{what}: begin to commit, median", "ms", seen.quantile_ms(0.5), False, aim=1.0),
            Figure(f"{what}: begin to commit, p99", "ms", seen.quantile_ms(0.99), False, aim=1.0),
            Figure(f"{what}: server CPU", "us/transaction", cpu / len(seen.latencies_s) * 1e6, False),
        ]

    return part


# Aborted records


class AbortedReads:
    """Reads of topics that are filled once for each node."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._filled: dict[tuple[str, int], tuple[str, int]] = {}

    def fill(self, stack: ExitStack, peer: Subject, per_transaction: int) -> None:
        topic = stack.enter_context(topics.topic(peer, 1))
        count = self._records // per_transaction
        committed = transaction_loads.fill_aborted(peer.bootstrap, topic, count, per_transaction, _FILLERS)
        self._filled[peer.name, per_transaction] = topic, committed

    def part(
        self, per_transaction: int, client: str, read: Callable[[str, str, int], float]
    ) -> Callable[[Subject, float], list[Figure]]:
        def part(peer: Subject, _seconds: float) -> list[Figure]:
            topic, committed = self._filled[peer.name, per_transaction]
            cpu = peer.cpu_seconds()
            seconds = read(peer.bootstrap, topic, committed)
            cpu = peer.cpu_seconds() - cpu
            records = self._records // per_transaction * per_transaction
            what = f"{client}, aborted transactions of {per_transaction} records"
            return [
                Figure(what, "records passed/s", records / seconds, aim=1.0),
                Figure(f"{what}: server CPU", "ns/record", cpu / records * 1e9, False),
            ]

        return part


# The run


def run_idempotence(kinds: Sequence[str], options: argparse.Namespace) -> Series:
    parts: dict[str, Callable[..., list[Figure]]] = {}
    for size in SIZES_BYTES:
        parts[f"writes of {size} B"] = idempotent_writes(size)
        parts[f"raw writes of {size} B"] = numbered_writes(size)
    return _on_nodes(kinds, parts, options)


def _on_nodes(
    kinds: Sequence[str], parts: Mapping[str, Callable[..., list[Figure]]], options: argparse.Namespace
) -> Series:
    with ExitStack() as stack:
        peers = [stack.enter_context(NODES[kind]()) for kind in kinds]
        series = Series([peer.name for peer in peers])
        alternate(peers, parts, series, options.rounds, options.seconds)
    return series


def run_commits(kinds: Sequence[str], options: argparse.Namespace) -> Series:
    return _on_nodes(kinds, {f"commits of {count}": commits(count) for count in PRODUCERS}, options)


def run_cluster_commits(kinds: Sequence[str], options: argparse.Namespace) -> Series:
    parts = {f"commits of {count} on three nodes": commits(count) for count in PRODUCERS}
    with ExitStack() as stack:
        clusters = [stack.enter_context(CLUSTERS[kind]({})) for kind in kinds]
        series = Series([cluster.name for cluster in clusters])
        alternate(clusters, parts, series, options.rounds, options.seconds)
    return series


def run_aborted(kinds: Sequence[str], options: argparse.Namespace) -> Series:
    reads = AbortedReads(options.records)
    clients = {
        "confluent-kafka": transaction_loads.read_committed_confluent,
        "kraft's client": transaction_loads.read_committed_own,
    }
    with ExitStack() as stack:
        peers = [stack.enter_context(NODES[kind]()) for kind in kinds]
        series = Series([peer.name for peer in peers])
        for per_transaction in (100, 1000):
            for peer in peers:
                print(f"... fill with transactions of {per_transaction}", file=sys.stderr)
                reads.fill(stack, peer, per_transaction)
            parts = {f"read with {name}": reads.part(per_transaction, name, read) for name, read in clients.items()}
            alternate(peers, parts, series, options.rounds, options.seconds)
    return series


def run_ids(kinds: Sequence[str], options: argparse.Namespace) -> Series:
    makers = {kind: watched_node.watched_cluster if kind == "kraft" else CLUSTERS[kind] for kind in kinds}
    clusters = {kind: make(OVERRIDES) for kind, make in makers.items()}
    series = Series([cluster.name for cluster in clusters.values()])
    for cluster in clusters.values():
        with cluster:
            series.add(cluster.name, OpenTransactions(cluster, options.ids).measure())
    return series


NODES: Final[dict[str, type[Peer]]] = {"kraft": Kraft, "kafka": ApacheKafka}
CLUSTERS: Final[dict[str, Callable[[Mapping[str, str]], Cluster]]] = {
    "kraft": kraft_cluster,
    "kafka": apache_kafka_cluster,
}
RUNS: Final[dict[str, Callable[[Sequence[str], argparse.Namespace], Series]]] = {
    "idempotence": run_idempotence,
    "commits": run_commits,
    "cluster-commits": run_cluster_commits,
    "aborted": run_aborted,
    "ids": run_ids,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_transactions")
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="length of a measured load")
    parser.add_argument("--cluster", choices=("kraft", "kafka", "both"), default="both")
    parser.add_argument("--ids", type=int, default=20_000)
    parser.add_argument("--records", type=int, default=ABORTED_RECORDS, help="that are aborted")
    options = parser.parse_args(arguments)
    kinds = ["kraft", "kafka"] if options.cluster == "both" else [options.cluster]
    try:
        if "kafka" in kinds:
            apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"Apache Kafka is skipped: {why}")
        kinds.remove("kafka")
    touch_memory()
    found: dict[str, Series] = {}
    for name in options.only if kinds else ():
        series = found[name] = RUNS[name](kinds, options)
        print(f"\n{name}\n\n{series.table()}", flush=True)
    print(f"\n{report.save('transactions', {name: series.as_json() for name, series in found.items()})}")
    return exit_code(found.values())


if __name__ == "__main__":
    sys.exit(main())
