"""Many groups whose members commit every second: three nodes of this project and three of Apache Kafka.

    python -m benchmarks.bench_groups [--cluster kraft kafka] [--groups 1000] [--members 3] [--partitions 4]
                                      [--seconds 20] [--rounds 3]

Every member commits the offsets of its partitions once in a period, at a time that differs between members, and sends a
heartbeat every 3 s. Measures the brokers' CPU time, with heartbeats alone and with commits; the latency of a commit;
the memory of groups; and the time without a successful commit after a coordinator was killed with SIGKILL. Without java
or mvn, Apache Kafka is left out.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs

from benchmarks import apache_kafka, group_state, processes, protocol, report
from benchmarks.clusters import Cluster, apache_kafka_cluster, kraft_cluster
from benchmarks.group_members import Group, Load, Loop
from benchmarks.group_state import Loading
from benchmarks.peers import Kraft, PeerFailed
from broker.client.payloads import decode_response, encode_request
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic

TOPIC: Final = "groups"
JOIN_SECONDS: Final = 8.0
JOIN_TIMEOUT_S: Final = 120.0
WARM_UP_SECONDS: Final = 10.0
RECOVERY_TIMEOUT_S: Final = 90.0
CLUSTERS: Final[dict[str, Callable[[], Cluster]]] = {"kraft": kraft_cluster, "kafka": apache_kafka_cluster}
_LOADED: Final = re.compile(r"Finished loading .*__consumer_offsets.* in (\d+)ms .* Loaded (\d+) records")


@attrs.define
class Figures:
    """Times are µs of CPU for all brokers together, or else ms. Memory is the growth of the nodes in bytes."""

    cluster: str
    commits_per_s: list[float] = attrs.field(factory=list)
    cpu_us_per_commit: list[float] = attrs.field(factory=list)
    busy: list[float] = attrs.field(factory=list)
    median_ms: list[float] = attrs.field(factory=list)
    p99_ms: list[float] = attrs.field(factory=list)
    heartbeats_busy: float = 0.0
    skipped: int = 0
    bytes_per_group: float = 0.0
    recovered_ms: list[float] = attrs.field(factory=list)
    never_recovered: int = 0
    loading: Loading = attrs.field(factory=Loading)
    refused: dict[str, int] = attrs.field(factory=dict)


def measure(cluster: Cluster, options: argparse.Namespace) -> Figures:
    figures = Figures(cluster.name)
    _create_topic(cluster, options.members * options.partitions)
    rss = _resident(cluster)
    load = Load(TOPIC, options.members, options.partitions, options.period)
    loop = Loop([each.port for each in cluster.members])
    groups = _join(loop, load, options)
    figures.bytes_per_group = (_resident(cluster) - rss) / options.groups
    before, began = cluster.cpu_seconds(), time.perf_counter()
    loop.run_for(options.seconds / 2)
    figures.heartbeats_busy = (cluster.cpu_seconds() - before) / (time.perf_counter() - began)
    load.is_committing = True
    loop.run_for(WARM_UP_SECONDS)
    for _ in range(options.rounds):
        _round(cluster, loop, load, options.seconds, figures)
    _kill(cluster, loop, load, groups, figures)
    figures.refused = dict(load.refused)
    return figures


def _create_topic(cluster: Cluster, partitions: int) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=len(cluster.members))
    with protocol.Connection(cluster.members[0].port, timeout_s=60) as connection:
        created = _ask(connection, CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5).topics[0]
        assert created.error_code == 0, created.error_message
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        while any(part.leader_id < 0 for part in _ask(connection, metadata, 9).topics[0].partitions):
            time.sleep(0.1)


def _ask(connection: protocol.Connection, request: Any, version: int) -> Any:
    payload = encode_request(request, version, "bench-groups")
    return decode_response(request, version, connection.ask(len(payload).to_bytes(4) + payload))


def _join(loop: Loop, load: Load, options: argparse.Namespace) -> list[Group]:
    """Start the groups one after the other, so that commits are measured without joins."""
    count, members = options.groups, options.members
    groups = []
    for number in range(count):
        phases = [
            options.period * ((number + at * count) * 7919 % (count * members)) / (count * members)
            for at in range(members)
        ]
        group = Group(loop, load, f"group-{number}", phases)
        groups.append(group)
        loop.at(time.perf_counter() + JOIN_SECONDS * number / count, partial(loop.find, group))
    if not loop.run(lambda: loop.ready == count * members, JOIN_TIMEOUT_S):
        raise TimeoutError(f"{loop.ready} of {count * members} members have joined: {dict(load.refused)}")
    return groups


def _round(cluster: Cluster, loop: Loop, load: Load, seconds: float, figures: Figures) -> None:
    load.latencies_s = []
    load.is_measuring = True
    cpu, began = cluster.cpu_seconds(), time.perf_counter()
    loop.run_for(seconds)
    cpu, took = cluster.cpu_seconds() - cpu, time.perf_counter() - began
    load.is_measuring = False
    figures.skipped, load.skipped = figures.skipped + load.skipped, 0
    latencies = sorted(load.latencies_s)
    figures.commits_per_s.append(len(latencies) / took)
    figures.cpu_us_per_commit.append(1e6 * cpu / len(latencies))
    figures.busy.append(cpu / took)
    figures.median_ms.append(1e3 * latencies[len(latencies) // 2])
    figures.p99_ms.append(1e3 * latencies[len(latencies) * 99 // 100])


def _kill(cluster: Cluster, loop: Loop, load: Load, groups: Sequence[Group], figures: Figures) -> None:
    """Kill the last node while its groups commit. The clients then look for their coordinators at the other nodes."""
    victim = cluster.members[-1]
    theirs = {group.group_id for group in groups if group.coordinator == victim.place.node_id}
    others = cluster.members[:-1]
    loop.ports = [each.port for each in others]
    seen = [len(each.log.read_text(errors="replace")) for each in others]
    load.since = killed = time.perf_counter()
    load.first_commits = {}
    victim.kill()
    loop.run(lambda: theirs <= load.first_commits.keys(), RECOVERY_TIMEOUT_S)
    figures.recovered_ms = sorted(
        1e3 * (load.first_commits[each] - killed) for each in theirs & load.first_commits.keys()
    )
    figures.never_recovered = len(theirs) - len(figures.recovered_ms)
    if cluster.name.endswith(Kraft.name):
        figures.loading = group_state.load(victim.data)
    else:
        logs = "".join(each.log.read_text(errors="replace")[at:] for each, at in zip(others, seen, strict=True))
        for elapsed_ms, records in _LOADED.findall(logs):
            figures.loading.add(int(records), int(elapsed_ms) / 1e3)


def _resident(cluster: Cluster) -> float:
    return 1e6 * sum(processes.resident_mb(each.pid) for each in cluster.members)


def _rows(found: Sequence[Figures]) -> list[list[str]]:
    def row(name: str, unit: str, value: Callable[[Figures], float]) -> list[str]:
        values = [value(each) for each in found]
        ratio = [report.number(values[1] / values[0])] if len(values) == 2 and values[0] else [""]
        return [name, unit, *map(report.number, values), *ratio]

    return [
        row("commits", "per s", lambda each: report.median(each.commits_per_s)),
        row("  due, but the one before was not done", "", lambda each: each.skipped),
        row("CPU per commit, all brokers", "us", lambda each: report.median(each.cpu_us_per_commit)),
        row("CPU, all brokers", "cores", lambda each: report.median(each.busy)),
        row("CPU with heartbeats alone", "cores", lambda each: each.heartbeats_busy),
        row("commit, median", "ms", lambda each: report.median(each.median_ms)),
        row("commit, p99", "ms", lambda each: report.median(each.p99_ms)),
        row("memory per group", "bytes", lambda each: each.bytes_per_group),
        row("commits again after kill -9, first group", "ms", lambda each: each.recovered_ms[0]),
        row("  median group", "ms", lambda each: report.median(each.recovered_ms)),
        row("  last group", "ms", lambda each: each.recovered_ms[-1]),
        row("  groups that never did", "", lambda each: each.never_recovered),
        row("loading, per record", "us", lambda each: each.loading.us_per_record),
        row("  records", "", lambda each: each.loading.records),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_groups")
    parser.add_argument("--cluster", nargs="*", choices=list(CLUSTERS), default=list(CLUSTERS))
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--members", type=int, default=3, help="of each group")
    parser.add_argument("--partitions", type=int, default=4, help="that each member commits")
    parser.add_argument("--period", type=float, default=1.0, help="seconds from a member's commit to its next")
    parser.add_argument("--seconds", type=float, default=20, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    found = []
    for name in options.cluster:
        try:
            with CLUSTERS[name]() as cluster:
                found.append(measure(cluster, options))
        except apache_kafka.Unavailable as why:
            print(f"skipped: {why}")
        except PeerFailed as why:
            print(f"left out: {why}")
    if not found:
        return 0
    print(report.table(["figure", "unit", *(each.cluster for each in found), "ratio"], _rows(found)))
    for each in found:
        if each.refused:
            print(f"{each.cluster}: refused {each.refused}")
    print(f"\n{report.save('groups', {'options': vars(options), 'figures': [attrs.asdict(each) for each in found]})}")
    return 1 if any(each.never_recovered for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
