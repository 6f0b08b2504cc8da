"""Plans of `kraft reassign plan` beside those of Apache Kafka's `kafka-reassign-partitions --generate`.

    python -m benchmarks.bench_plans

Eleven clusters are planned by both. The table has how even the brokers are afterwards, what moves, and how many
partitions are in fewer racks than possible. Kafka draws its plans at random, so its figures are the medians of five
plans. It needs all racks or none, as do the clusters here. Skipped where Apache Kafka's jars cannot be had.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

import attrs

from benchmarks import apache_kafka
from benchmarks.report import median, number, table
from broker.cli.commands.replica_spread import Replicas, measure, moved, spread
from broker.client.types import TopicPartition

_KAFKA_PLANS: Final = 5
_PROGRAM: Final = Path(__file__).with_name("KafkaPlans.java")
_GB: Final = 1 << 30
_HEAD: Final = (
    "cluster",
    "plan",
    "replicas per broker",
    "leaders per broker",
    "largest/mean bytes",
    "replicas moved",
    "GB moved",
    "in too few racks",
    "CPU s",
)


@attrs.frozen
class Shape:
    """A cluster to be planned. `racks` has the brokers that get replicas."""

    name: str
    current: Replicas
    racks: Mapping[int, str | None]
    sizes: Mapping[TopicPartition, int]


def _striped(brokers: Sequence[int], partitions: int, replicas: int = 3, topics: int = 10) -> Replicas:
    """Topics over brokers, as Kafka places new ones without racks."""
    count = len(brokers)
    return {
        TopicPartition(f"t{topic}", index): [brokers[(topic + index + each) % count] for each in range(replicas)]
        for topic in range(topics)
        for index in range(partitions // topics)
    }


def _even(replicas: Replicas) -> dict[TopicPartition, int]:
    return dict.fromkeys(replicas, _GB)


def _uneven(replicas: Replicas) -> dict[TopicPartition, int]:
    """Sizes from 1 MB to 10 GB, evenly spread over their logarithms."""
    random = Random(7)
    return {partition: int(10 ** random.uniform(6, 10)) for partition in replicas}


def _no_racks(brokers: Iterable[int]) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def shapes() -> list[Shape]:
    """The clusters, the same in each run."""
    three, six = _striped(range(1, 4), 300), _striped(range(1, 7), 600)
    many = _striped(range(1, 11), 5_000, topics=50)
    alone = _striped(range(1, 5), 200, replicas=1)
    small = _striped(range(1, 6), 200, replicas=2, topics=200)
    one_leads = {partition: sorted(replicas) for partition, replicas in _striped(range(1, 4), 120).items()}
    thirds: dict[int, str | None] = {broker: "abc"[(broker - 1) // 2] for broker in range(1, 7)}
    lopsided: dict[int, str | None] = dict(zip(range(1, 8), "aaaabbc", strict=True))
    return [
        Shape("a fourth broker", three, _no_racks(range(1, 5)), _even(three)),
        Shape("a fourth broker, uneven sizes", three, _no_racks(range(1, 5)), _uneven(three)),
        Shape("a lost broker of six", six, _no_racks(range(1, 6)), _even(six)),
        Shape("twice as many brokers", three, _no_racks(range(1, 7)), _even(three)),
        Shape("racks come in", six, thirds, _even(six)),
        Shape("racks of 4, 2 and 1 brokers", _striped(range(1, 8), 700), lopsided, _even(_striped(range(1, 8), 700))),
        Shape("even counts, uneven sizes", six, _no_racks(range(1, 7)), _uneven(six)),
        Shape("5,000 partitions, two brokers more", many, _no_racks(range(1, 13)), _uneven(many)),
        Shape("200 topics of one partition", small, _no_racks(range(1, 7)), _even(small)),
        Shape("single replicas, uneven sizes", alone, _no_racks(range(1, 6)), _uneven(alone)),
        Shape("one broker leads all", one_leads, _no_racks(range(1, 4)), _even(one_leads)),
    ]


def kafka_plans(directory: Path, found: Sequence[Shape]) -> list[list[Replicas]]:
    """Kafka's plans of each cluster."""
    lines = []
    for shape in found:
        for _ in range(_KAFKA_PLANS):
            lines += [f"broker {broker} {rack or '-'}" for broker, rack in shape.racks.items()]
            lines += [
                f"partition {partition.topic} {partition.partition} {','.join(map(str, replicas))}"
                for partition, replicas in shape.current.items()
            ]
            lines.append("plan")
    command = ["java", "-cp", f"{directory}/*", str(_PROGRAM)]
    answer = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=300, check=True)
    plans: list[Replicas] = []
    plan: dict[TopicPartition, list[int]] = {}
    for line in answer.stdout.splitlines():
        if line == "end":
            plans.append(plan)
            plan = {}
        else:
            _, topic, index, replicas = line.split()
            plan[TopicPartition(topic, int(index))] = [int(each) for each in replicas.split(",")]
    assert len(plans) == len(found) * _KAFKA_PLANS, answer.stderr
    return [plans[first : first + _KAFKA_PLANS] for first in range(0, len(plans), _KAFKA_PLANS)]


def _figures(shape: Shape, plans: Sequence[Replicas]) -> list[str]:
    found = [measure(plan, shape.racks, shape.sizes) for plan in plans]
    moves = [list(moved(shape.current, plan)) for plan in plans]
    mean = sum(size * len(shape.current[each]) for each, size in shape.sizes.items()) / len(shape.racks)
    return [
        "-".join(_count(each.replicas[end] for each in found) for end in (0, 1)),
        "-".join(_count(each.leaders[end] for each in found) for end in (0, 1)),
        number(median([each.size_bytes[1] / mean for each in found])),
        _count(map(len, moves)),
        number(median([sum(shape.sizes[partition] for partition, _ in each) / _GB for each in moves])),
        _count(each.in_few_racks for each in found),
    ]


def _count(values: Iterable[int]) -> str:
    return f"{median(list(values)):,.0f}"


def main() -> None:
    """Print the table."""
    try:
        directory = apache_kafka.jars()
    except apache_kafka.Unavailable as error:
        sys.exit(f"Skipped, because Apache Kafka is not available: {error}.")
    rows = []
    clusters = shapes()
    for shape, plans in zip(clusters, kafka_plans(directory, clusters), strict=True):
        began = time.process_time()
        own = spread(shape.current, shape.racks, shape.sizes, None)
        elapsed = time.process_time() - began
        before = _figures(shape, [shape.current])
        rows += [
            [shape.name, "before", *before[:3], "", "", before[5], ""],
            ["", "kraft", *_figures(shape, [own]), number(elapsed)],
            ["", "Apache Kafka", *_figures(shape, plans), ""],
        ]
    print(table(_HEAD, rows))


if __name__ == "__main__":
    main()
