"""Repeated kill -9 of a partition's leader, with a writer and a reader that follows.

    python -m benchmarks.bench_failover [--cluster kraft|kafka|kafka-fast] [--seconds 450] [--every 15]
                                        [--size 100] [--rate 20000] [--backoff 100]

Three nodes, one partition with three replicas, min.insync.replicas=2, acks=all, confluent-kafka's defaults. The leader
is killed every few seconds, but not before all replicas are in sync again; its process is restarted a second later.
Reports for each kill after which time another node led the partition, the longest time without an acknowledgement until
the next kill, and which steps the slowest failover had. At the end, the reader must have read every acknowledged record
once and in order; otherwise the exit code is 1.

A client waits `retry.backoff.ms` before it writes again what was on its way to the leader: 100 ms by default, less or
more by a fifth. `--backoff 10` shows how much of a failover that is.

Kills in quicker succession also measure librdkafka's pauses between attempts to connect to a broker that has died
before, which grow up to 10 s. At full speed (`--rate 0`), nodes and clients wait for the processor, and logs become so
large that a restart takes longer from kill to kill.

`kafka` is Apache Kafka with its defaults. `kafka-fast` is Apache Kafka with a broker session timeout as short as the
time that this project's controller grants a broker whose connection was reset. For both, the time after which another
node led is not reported. Without java or mvn they are skipped with a message, and the exit code is 0.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Final

import attrs
from confluent_kafka.admin import AdminClient, PartitionMetadata

from benchmarks import apache_kafka, report, topics
from benchmarks.clusters import Cluster, KraftMember, apache_kafka_cluster, kraft_cluster
from benchmarks.failover_timeline import (
    Event,
    LoggedMember,
    Step,
    active_controller,
    client_steps,
    next_leader,
    node_steps,
    read_events,
)
from benchmarks.numbered_records import Gap, Read, Worker, Written, longest_gap, lost, read, write

_DOWN_SECONDS: Final = 1.0
_IN_SYNC_TIMEOUT_S: Final = 120.0
_WARM_UP_SECONDS: Final = 5.0
# librdkafka's bound.
_BACKOFF_MAX_MS: Final = 300_000
FAST_SESSIONS: Final = {"broker.session.timeout.ms": "300", "broker.heartbeat.interval.ms": "100"}
CLUSTERS: Final[dict[str, Callable[[], Cluster]]] = {
    "kraft": lambda: kraft_cluster(kind=LoggedMember),
    "kafka": apache_kafka_cluster,
    "kafka-fast": lambda: apache_kafka_cluster(FAST_SESSIONS),
}


@attrs.frozen
class Kill:
    """The kill of a leader. Times are in seconds: `moment`, and `wall` since 1970, are those of the signal.

    `ended` is how long the process took to end, and `in_sync` how long all replicas took to be in sync again.
    """

    moment: float
    wall: float
    victim: int
    ended: float
    in_sync: float


@attrs.frozen
class Failover:
    """A kill, and the longest time without an acknowledgement after it.

    `led` is how many seconds after the kill another node led the partition; None if the nodes' logs do not tell.
    """

    kill: Kill
    gap: Gap
    led: float | None
    was_controller: bool

    @property
    def ms(self) -> float:
        return 1000 * self.gap.seconds

    def __str__(self) -> str:
        role = ", the active controller" if self.was_controller else ""
        led = "" if self.led is None else f"another leader after {1000 * self.led:.0f} ms, "
        return f"{self.ms:.0f} ms: node {self.kill.victim}{role}; {led}in sync again after {self.kill.in_sync:.1f} s"


class Killer:
    """Kills the leader of partition 0 of a topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def kill(self) -> Kill:
        victim = self._cluster.by_id(self._partition().leader)
        moment, wall = time.monotonic(), time.time()
        victim.kill()
        ended = time.monotonic() - moment
        time.sleep(_DOWN_SECONDS)
        victim.launch()
        return Kill(moment, wall, victim.place.node_id, ended, self._wait_in_sync() - moment)

    def _wait_in_sync(self) -> float:
        """Returns the time at which all replicas are in sync, or infinity after a timeout."""
        began = time.monotonic()
        while time.monotonic() < began + _IN_SYNC_TIMEOUT_S:
            partition = self._partition()
            if partition.leader >= 0 and len(partition.isrs) == len(self._cluster.members):
                return time.monotonic()
            time.sleep(0.05)
        return inf

    def _partition(self) -> PartitionMetadata:
        return self._admin.list_topics(self._topic, timeout=30).topics[self._topic].partitions[0]


@attrs.frozen
class Options:
    """`seconds` of kills with at least `every` seconds between them, and `rate` records of `size_bytes` a second, whose
    writer waits `backoff_ms` before it repeats a request.
    """

    seconds: float
    every: float
    size_bytes: int
    rate: float
    backoff_ms: int


def run(cluster: Cluster, options: Options) -> int:
    """Run the benchmark on a cluster. Returns the exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-failover-") as directory,
        topics.topic(cluster, 1) as topic,
        Worker[Written](
            write,
            cluster.bootstrap,
            topic,
            options.size_bytes,
            options.rate,
            options.backoff_ms,
            f"{directory}/client.log",
        ) as writer,
        Worker[Read](read, cluster.bootstrap, topic) as reader,
    ):
        time.sleep(_WARM_UP_SECONDS)
        kills = _kills(Killer(cluster, topic), options)
        time.sleep(options.every)
        end = time.monotonic()
        written = writer.finish()
        found = reader.finish(len(written.fates) - written.failed)
        events = read_events(member for member in cluster.members if isinstance(member, KraftMember))
        failovers = _failovers(kills, end, written, events)
        _report_failovers(cluster, failovers)
        _report_timeline(max(failovers, key=lambda each: each.ms), events, Path(directory, "client.log"))
        is_right = _report_records(written, found) and kills[-1].in_sync < inf
        return 0 if is_right else 1


def _kills(killer: Killer, options: Options) -> list[Kill]:
    kills: list[Kill] = []
    began = time.monotonic()
    while (now := time.monotonic()) < began + options.seconds:
        if kills:
            time.sleep(max(0.0, kills[-1].moment + options.every - now))
        kills.append(killer.kill())
        if kills[-1].in_sync == inf:
            print(f"WRONG: not all replicas are in sync {_IN_SYNC_TIMEOUT_S:.0f} s after the restart")
            break
    return kills


def _failovers(kills: list[Kill], end: float, written: Written, events: list[Event]) -> list[Failover]:
    ends = [kill.moment for kill in kills[1:]] + [end]
    return [
        Failover(
            kill,
            longest_gap(written.moments, kill.moment, until),
            next_leader(events, kill.wall, kill.wall + until - kill.moment),
            kill.victim == active_controller(events, kill.wall),
        )
        for kill, until in zip(kills, ends, strict=True)
    ]


def _report_failovers(cluster: Cluster, failovers: list[Failover]) -> None:
    gaps = sorted(each.ms for each in failovers)
    in_sync = sorted(each.kill.in_sync for each in failovers)
    print(
        f"{cluster.name}: {len(failovers)} kills; without an acknowledgement: median {statistics.median(gaps):.0f} ms, "
        f"worst {gaps[-1]:.0f} ms; all in sync again after: median {statistics.median(in_sync):.1f} s, worst "
        f"{in_sync[-1]:.1f} s"
    )
    led = sorted(1000 * each.led for each in failovers if each.led is not None)
    if led:
        print(f"  another node led the partition after: median {statistics.median(led):.0f} ms, worst {led[-1]:.0f} ms")
    for failover in failovers:
        print(f"  {failover}")
    figures: dict[str, object] = {"cluster": cluster.name, "gaps_ms": gaps, "led_ms": led, "in_sync_s": in_sync}
    print(f"  {report.save('failover', figures)}")


def _report_timeline(failover: Failover, events: list[Event], client_log: Path) -> None:
    kill, gap = failover.kill, failover.gap
    begin = kill.wall + gap.begin - kill.moment
    end = begin + gap.seconds
    steps = [
        Step(kill.wall, f"kill -9 of node {kill.victim}"),
        Step(kill.wall + kill.ended, f"the process of node {kill.victim} has ended"),
        *([Step(begin, "last acknowledgement")] if begin > kill.wall else []),
        Step(end, "next acknowledgement"),
        *node_steps(events, kill.wall, end),
        *client_steps(client_log, kill.wall, end),
    ]
    print("  the slowest one, in milliseconds since the kill:")
    for step in sorted(steps, key=lambda step: step.moment):
        print(f"  {1000 * (step.moment - kill.wall):8.1f}  {step.text}")


def _report_records(written: Written, found: Read) -> bool:
    missing = lost(written, found)
    print(
        f"  {written.acknowledged:,} of {len(written.fates):,} records acknowledged, {written.failed} failed; "
        f"{sum(found.seen):,} read, {len(missing)} acknowledged and lost, {len(found.wrongs)} twice or out of order"
    )
    for wrong in [*(f"record {number} is lost" for number in missing[:10]), *found.wrongs[:10]]:
        print(f"  WRONG: {wrong}")
    return not missing and not found.wrongs


def _backoff_ms(text: str) -> int:
    """A value of retry.backoff.ms. The writer could not start with another one, and could not say so."""
    if not 1 <= int(text) <= _BACKOFF_MAX_MS:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_BACKOFF_MAX_MS}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_failover")
    parser.add_argument("--cluster", choices=list(CLUSTERS), default="kraft")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--every", type=float, default=15, help="seconds between kills, at least")
    parser.add_argument("--size", type=int, default=100, help="bytes of a record's value")
    parser.add_argument("--rate", type=float, default=20_000, help="records per second; 0 for full speed")
    parser.add_argument("--backoff", type=_backoff_ms, default=100, help="the writer's retry.backoff.ms")
    options = parser.parse_args(arguments)
    try:
        if options.cluster != "kraft":
            apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    with CLUSTERS[options.cluster]() as cluster:
        return run(cluster, Options(options.seconds, options.every, options.size, options.rate, options.backoff))


if __name__ == "__main__":
    sys.exit(main())
