"""Repeated kill -9 of a partition's leader, with a writer at full speed and a reader that follows.

    python -m benchmarks.bench_failover [--cluster kraft|kafka|kafka-fast] [--seconds 300] [--every 5]

Three nodes, one partition with three replicas, min.insync.replicas=2, acks=all, confluent-kafka's defaults. The leader
is killed every few seconds, but not before all replicas are in sync again; its process is restarted a second later.
Reports for each kill the longest time without an acknowledgement until the next kill. At the end, the reader must have
read every acknowledged record once and in order; otherwise the exit code is 1.

`kafka` is Apache Kafka with its defaults. `kafka-fast` is Apache Kafka with a broker session timeout as short as the
time that this project's controller grants a broker whose connection was reset. Without java or mvn they are skipped
with a message, and the exit code is 0.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import attrs
from confluent_kafka.admin import AdminClient, PartitionMetadata

from benchmarks import apache_kafka, report, topics
from benchmarks.clusters import Cluster, apache_kafka_cluster, kraft_cluster
from benchmarks.numbered_records import Read, Worker, Written, longest_gap, lost, read, write

_DOWN_SECONDS: Final = 1.0
_IN_SYNC_TIMEOUT_S: Final = 120.0
_WARM_UP_SECONDS: Final = 5.0
FAST_SESSIONS: Final = {"broker.session.timeout.ms": "300", "broker.heartbeat.interval.ms": "100"}
CLUSTERS: Final[dict[str, Callable[[], Cluster]]] = {
    "kraft": kraft_cluster,
    "kafka": apache_kafka_cluster,
    "kafka-fast": lambda: apache_kafka_cluster(FAST_SESSIONS),
}


@attrs.frozen
class Kill:
    """The times, by `time.monotonic`, at which the leader was killed and at which all replicas were in sync again."""

    moment: float
    in_sync: float


class Killer:
    """Kills the leader of partition 0 of a topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def kill(self) -> Kill:
        victim = self._cluster.by_id(self._partition().leader)
        moment = time.monotonic()
        victim.kill()
        time.sleep(_DOWN_SECONDS)
        victim.launch()
        return Kill(moment, self._wait_in_sync(moment))

    def _wait_in_sync(self, moment: float) -> float:
        while time.monotonic() < moment + _IN_SYNC_TIMEOUT_S:
            partition = self._partition()
            if partition.leader >= 0 and len(partition.isrs) == len(self._cluster.members):
                return time.monotonic()
            time.sleep(0.05)
        raise TimeoutError(f"not all replicas are in sync after {_IN_SYNC_TIMEOUT_S} s")

    def _partition(self) -> PartitionMetadata:
        return self._admin.list_topics(self._topic, timeout=30).topics[self._topic].partitions[0]


def run(cluster: Cluster, seconds: float, every: float, size_bytes: int) -> int:
    """Run the benchmark on a cluster. Returns the exit code."""
    with (
        topics.topic(cluster, 1) as topic,
        Worker[Written](write, cluster.bootstrap, topic, size_bytes) as writer,
        Worker[Read](read, cluster.bootstrap, topic) as reader,
    ):
        time.sleep(_WARM_UP_SECONDS)
        kills = _kills(Killer(cluster, topic), seconds, every)
        time.sleep(every)
        end = time.monotonic()
        written = writer.finish()
        found = reader.finish(len(written.fates) - written.failed)
    return _report(cluster, kills, end, written, found)


def _kills(killer: Killer, seconds: float, every: float) -> list[Kill]:
    kills: list[Kill] = []
    began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if kills:
            time.sleep(max(0.0, kills[-1].moment + every - now))
        kills.append(killer.kill())
    return kills


def _report(cluster: Cluster, kills: list[Kill], end: float, written: Written, found: Read) -> int:
    ends = [kill.moment for kill in kills[1:]] + [end]
    gaps = sorted(
        1000 * longest_gap(written.moments, kill.moment, until) for kill, until in zip(kills, ends, strict=True)
    )
    in_sync = sorted(kill.in_sync - kill.moment for kill in kills)
    missing = lost(written, found)
    print(
        f"{cluster.name}: {len(kills)} kills; without an acknowledgement: median {statistics.median(gaps):.0f} ms, "
        f"worst {gaps[-1]:.0f} ms; all in sync again after: median {statistics.median(in_sync):.1f} s, worst "
        f"{in_sync[-1]:.1f} s"
    )
    print("  ms: " + " ".join(f"{gap:.0f}" for gap in gaps))
    print(
        f"  {written.acknowledged:,} of {len(written.fates):,} records acknowledged, {written.failed} failed; "
        f"{sum(found.seen):,} read, {len(missing)} acknowledged and lost, {len(found.wrongs)} twice or out of order"
    )
    for wrong in [*(f"record {number} is lost" for number in missing[:10]), *found.wrongs[:10]]:
        print(f"  WRONG: {wrong}")
    print(f"  {report.save('failover', {'cluster': cluster.name, 'gaps_ms': gaps, 'in_sync_s': in_sync})}")
    return 1 if missing or found.wrongs else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_failover")
    parser.add_argument("--cluster", choices=list(CLUSTERS), default="kraft")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--every", type=float, default=5, help="seconds between kills, at least")
    parser.add_argument("--size", type=int, default=100, help="bytes of a record's value")
    options = parser.parse_args(arguments)
    try:
        if options.cluster != "kraft":
            apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        print(f"skipped: {why}")
        return 0
    with CLUSTERS[options.cluster]() as cluster:
        return run(cluster, options.seconds, options.every, options.size)


if __name__ == "__main__":
    sys.exit(main())
