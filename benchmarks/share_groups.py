"""Share groups on nodes of this project and of Apache Kafka, in alternating rounds.

    python -m benchmarks.share_groups [--only rows|in-flight] [--cluster kraft|kafka|both] [--rounds 3]
                                      [--records 60000] [--in-flight 1000000]

- rows: 1, 4 and 16 members of one group read records of 100 B and 1 KiB from 1 and 6 partitions. Each round drains a
  topic with batches of 100 records, for records/s and the server's CPU time per record. Then 200 records a second are
  produced one by one and acknowledged by themselves, for the time from produce to acknowledgement.
- in-flight: one member holds 1,000,000 records of 500 partitions: the growth of the node's memory, first in the batches
  in which the records came, then with every second one acknowledged; and the time from a start after kill -9 until
  the first record is delivered again.

Members are raw connections (see `benchmarks.share_members`), the same for both. Apache Kafka comes from Maven Central;
without java or mvn only this project's node is measured, and that is said. Ratios above 1 mean that this project's node
is better. Cells have the median of the rounds, and the least and the greatest value.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import attrs

from benchmarks import apache_kafka, processes, protocol, report, share_members, topics
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.peers import Kraft, Peer
from benchmarks.share_members import ShareGroup

SIZES_BYTES: Final = (100, 1024)
MEMBERS: Final = (1, 4, 16)
PARTITIONS: Final = (1, 6)
BATCH_RECORDS: Final = 100
RATE: Final = 200
LATENCY_SECONDS: Final = 1.0
# The last records of a topic are acknowledged by fetches that wait for more, and are not measured: a member holds up to
# 599, which are a fetch of 500 that ends with a whole batch.
UNMEASURED_PER_MEMBER: Final = 600
# Defaults of both are the same, but for assignments that wait for a second.
OVERRIDES: Final = {
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
# `group.share.partition.max.record.locks` is 2000 by default.
IN_FLIGHT_PER_PARTITION: Final = 2000


class SharingKafka(ApacheKafka):
    def properties(self) -> dict[str, str]:
        return super().properties() | OVERRIDES


NODES: Final[dict[str, Callable[[], Peer]]] = {"kraft": lambda: Kraft(OVERRIDES), "kafka": SharingKafka}


@attrs.frozen
class Row:
    size_bytes: int
    members: int
    partitions: int

    def __str__(self) -> str:
        members, partitions = _counted(self.members, "member"), _counted(self.partitions, "partition")
        return f"{self.size_bytes} B, {members}, {partitions}"


@attrs.frozen
class Seen:
    """One round of a row."""

    records_per_s: float
    p99_ms: float
    cpu_us: float


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number > 1)}"


def measure(peer: Peer, row: Row, records: int) -> Seen:
    """Drain a topic, then produce and acknowledge at a constant rate."""
    batch = protocol.batch(BATCH_RECORDS, row.size_bytes)
    with topics.topic(peer, row.partitions) as topic:
        share_members.fill(peer, topic, row.partitions, batch, records // BATCH_RECORDS)
        with ShareGroup(peer.port, topic, row.partitions, row.members) as group:
            measured, cpu = records - row.members * UNMEASURED_PER_MEMBER, peer.cpu_seconds()
            took = group.drain(measured)
            cpu = peer.cpu_seconds() - cpu
            group.finish()
            one = protocol.batch(1, row.size_bytes)
            requests = [protocol.produce(topic, index, one) for index in range(row.partitions)]
            latencies = group.latencies_s(requests, protocol.produce_error_offset(topic), RATE, LATENCY_SECONDS)
    return Seen(measured / took, 1e3 * latencies[len(latencies) * 99 // 100], 1e6 * cpu / measured)


def run_rows(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, object]:
    rows = [Row(*each) for each in itertools.product(SIZES_BYTES, MEMBERS, PARTITIONS)]
    seen: dict[Row, dict[str, list[Seen]]] = {row: {kind: [] for kind in kinds} for row in rows}
    with ExitStack() as stack:
        peers = {kind: stack.enter_context(NODES[kind]()) for kind in kinds}
        for peer in peers.values():
            for row in (rows[0], rows[-1]):
                measure(peer, row, options.records)  # a JVM compiles code that runs often
        for number, row in itertools.product(range(options.rounds), rows):
            for kind, peer in list(peers.items())[:: -1 if number % 2 else 1]:
                seen[row][kind].append(measure(peer, row, options.records))
    columns = ("records_per_s", "p99_ms", "cpu_us")
    heads = ("records/s", "p99 ms", "CPU us/record")
    ratio = ["ratio"] if len(kinds) == 2 else []
    head = ["row", *(name for what in heads for name in (*(f"{kind}: {what}" for kind in kinds), *ratio))]
    table = [[str(row), *(cell for each in columns for cell in _cells(seen[row], each))] for row in rows]
    print(f"\n{report.table(head, table)}", flush=True)
    return {
        str(row): {kind: [attrs.asdict(each) for each in found[kind]] for kind in kinds} for row, found in seen.items()
    }


def _cells(found: Mapping[str, Sequence[Seen]], column: str) -> list[str]:
    """The median with the least and the greatest value of each node, and the ratio of two nodes."""
    values = [[float(getattr(each, column)) for each in rounds] for rounds in found.values()]
    cells = [f"{report.number(report.median(each))} ({_span(each)})" for each in values]
    if len(values) == 2:
        ours, theirs = map(report.median, values)
        cells.append(report.number(ours / theirs if column == "records_per_s" else theirs / ours))
    return cells


def _span(values: Sequence[float]) -> str:
    return f"{report.number(min(values))}-{report.number(max(values))}"


# In flight


def hold(peer: Peer, records: int) -> dict[str, float]:
    """Hold records in flight, and restart the node."""
    partitions = max(1, records // IN_FLIGHT_PER_PARTITION)
    batch = protocol.batch(BATCH_RECORDS, SIZES_BYTES[0])
    with topics.topic(peer, partitions, log_level=2) as topic:
        per_partition = records // partitions // BATCH_RECORDS
        share_members.fill(peer, topic, partitions, batch, partitions * per_partition)
        with ShareGroup(peer.port, topic, partitions, 1, share_record_lock_duration_ms="60000") as group:
            member = group.members[0]
            before = processes.resident_mb(peer.pid)
            began = time.perf_counter()
            held = member.acquire(partitions * per_partition * BATCH_RECORDS, BATCH_RECORDS)
            took = time.perf_counter() - began
            after = processes.resident_mb(peer.pid)
            member.accept_every_second(held)
            scattered = processes.resident_mb(peer.pid)
            peer.kill()
            began = time.perf_counter()
            peer.start()
            group.reconnect()
            group.await_delivery()
            again = time.perf_counter() - began
    return {
        "acquired, s": took,
        "memory before, MB": before,
        "in batches, MB more": after - before,
        "every second one acknowledged, MB more": scattered - before,
        "start to first delivery, s": again,
        "  of it until the node serves": peer.startup_s,
    }


def run_in_flight(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, object]:
    found: dict[str, dict[str, float]] = {}
    for kind in kinds:
        with NODES[kind]() as peer:
            found[kind] = hold(peer, options.in_flight)
    names = list(next(iter(found.values())))
    rows = []
    for name in names:
        values = [found[kind][name] for kind in kinds]
        ratio = [report.number(values[1] / values[0])] if len(values) == 2 and values[0] else []
        rows.append([name, *map(report.number, values), *ratio])
    head = [f"{options.in_flight:,} records in flight", *kinds, *(["ratio"] if len(kinds) == 2 else [])]
    print(f"\n{report.table(head, rows)}", flush=True)
    return dict(found)


RUNS: Final = {"rows": run_rows, "in-flight": run_in_flight}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.share_groups")
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--cluster", choices=("kraft", "kafka", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=60_000, help="that a round drains")
    parser.add_argument("--in-flight", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    if options.records < 2 * max(MEMBERS) * UNMEASURED_PER_MEMBER:
        parser.error(f"--records: at least {2 * max(MEMBERS) * UNMEASURED_PER_MEMBER}")
    kinds = ["kraft", "kafka"] if options.cluster == "both" else [options.cluster]
    try:
        if "kafka" in kinds:
            apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"Apache Kafka is skipped: {why}")
        kinds.remove("kafka")
    saved: dict[str, object] = {name: RUNS[name](kinds, options) for name in options.only if kinds}
    print(f"\n{report.save('share_groups', saved)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
