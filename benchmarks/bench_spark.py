"""Reads of a topic with Spark: the data source "kraft" and Spark's own Kafka connector, on the same cluster,
alternating.

    python -m benchmarks.bench_spark [--records 5000000] [--large-records 500000] [--rounds 2] [--turns 3]

A cluster of three nodes holds a topic of 6 partitions and 3 replicas, filled by librdkafka: records of 100 B without
compression, and of 1 KiB with zstd. Every row is compared with the record that confluent-kafka reads. Each source reads
twice, each time in a process of its own. Without java and mvn, the connector is left out with a message.
"""

import argparse
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks import java_packages, report, topics
from benchmarks.apache_kafka import Unavailable
from benchmarks.clusters import Cluster, kraft_cluster
from benchmarks.loadgen import LoadFailed
from benchmarks.spark_topics import PARTITIONS, TIMEOUT_S, Load, fill

_AIMS: Final = {"all columns": 1.0, "three columns, aggregated": 1.0, "value only": 1.5}
_HEAD: Final = (
    "topic",
    "read",
    "kraft rows/s",
    "kafka rows/s",
    "ratio",
    "aim",
    "kraft CPU us/row",
    "kafka CPU us/row",
)
# Seconds and CPU seconds of each repetition, by source and kind of read.
Figures = dict[str, dict[str, list[list[float]]]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_spark")
    parser.add_argument("--records", type=int, default=5_000_000, help="records of 100 B; 0 leaves them out")
    parser.add_argument("--large-records", type=int, default=500_000, help="records of 1 KiB; 0 leaves them out")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each source")
    parser.add_argument("--turns", type=int, default=3, help="measured reads of each kind in a process")
    parser.add_argument("--alone", action="store_true", help="without Spark's own connector")
    options = parser.parse_args(arguments)
    jars = [] if options.alone else _connector()
    loads = [
        Load("100 B", options.records, 100, "none"),
        Load("1 KiB, zstd", options.large_records, 1024, "zstd"),
    ]
    rows, saved = [], {}
    with kraft_cluster() as cluster:
        for load in loads:
            if load.records:
                figures = _measure(cluster, load, jars, options.rounds, options.turns)
                rows += _rows(load, figures)
                saved[load.name] = figures
    print(report.table(_HEAD, rows))
    print(f"\n{report.save('spark', {'records': options.records, 'figures': saved})}")
    return 0


def _connector() -> list[str]:
    try:
        return java_packages.jars(java_packages.CONNECTOR)
    except Unavailable as why:
        print(f"Spark's own connector is left out: {why}")
        return []


def _measure(cluster: Cluster, load: Load, jars: list[str], rounds: int, turns: int) -> Figures:
    sources = {"kraft": [], **({"kafka": ["--jars", ",".join(jars)]} if jars else {})}
    figures: Figures = {source: {} for source in sources}
    with topics.topic(cluster, PARTITIONS) as topic:
        seconds = fill(cluster.bootstrap, topic, load)
        print(f"... {load.name}: {load.records} records written in {seconds:.1f} s", file=sys.stderr)
        expected = _read_by_confluent(cluster.bootstrap, topic, load.records)
        found = _spark("kraft", cluster.bootstrap, topic, ["--check"])
        if found != expected:
            raise LoadFailed(f"rows differ from those of confluent-kafka: {found}, not {expected}")
        for _ in range(rounds):
            for source, extra in sources.items():
                measured = _spark(source, cluster.bootstrap, topic, [*extra, "--turns", str(turns)])
                for kind, each in measured.items():
                    figures[source].setdefault(kind, []).extend(each)
    return figures


def _read_by_confluent(bootstrap: str, topic: str, records: int) -> dict[str, list[int]]:
    """For each partition, the number of its records and the sum of their checksums."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    sums: dict[str, list[int]] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        left, deadline = records, time.monotonic() + TIMEOUT_S
        while left and time.monotonic() < deadline:
            messages = consumer.consume(min(10_000, left), 1.0)
            left -= len(messages)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                of_partition = sums.setdefault(str(message.partition()), [0, 0])
                of_partition[0] += 1
                of_partition[1] += _checksum(message)
    finally:
        consumer.close()
    if left:
        raise LoadFailed(f"confluent-kafka missed {left} records")
    return sums


def _checksum(message: Any) -> int:
    place = f"{message.topic()}/{message.partition()}/{message.offset()}/{message.timestamp()[1]}"
    return zlib.crc32(b"".join((message.key() or b"", message.value(), place.encode())))


def _spark(source: str, bootstrap: str, topic: str, extra: Sequence[str]) -> Any:
    command = [sys.executable, "-m", "benchmarks.spark_reads", source, bootstrap, topic, *extra]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise LoadFailed(f"{source} could not be read:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _rows(load: Load, figures: Figures) -> list[list[str]]:
    rows = []
    for kind, ours in figures["kraft"].items():
        (rate, cpu), theirs = _rate(load, ours), figures.get("kafka", {}).get(kind)
        cells = [load.name, kind, report.number(rate)]
        aim = report.number(_AIMS[kind]) if kind in _AIMS else "-"
        if theirs is None:
            rows.append([*cells, "-", "-", aim, report.number(cpu), "-"])
        else:
            their_rate, their_cpu = _rate(load, theirs)
            ratio = f"{rate / their_rate:.2f}"
            rows.append([*cells, report.number(their_rate), ratio, aim, report.number(cpu), report.number(their_cpu)])
    return rows


def _rate(load: Load, turns: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The medians: rows per second, and microseconds of CPU time per row."""
    seconds, cpu_seconds = (report.median(each) for each in zip(*turns, strict=True))
    return load.records / seconds, cpu_seconds / load.records * 1e6


if __name__ == "__main__":
    sys.exit(main())
