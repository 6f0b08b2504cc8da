"""The measurements of one node, which can alternate between nodes, and the comparison of two nodes."""

import time
from collections.abc import Callable, Iterable, Sequence

import attrs

from benchmarks import client_loads, processes, raw_loads, topics
from benchmarks.peers import Peer, Subject
from benchmarks.report import median, number

_LATENCY_RATE = 500
_SIZES_BYTES = (100, 1024)
_PARTITION_COUNTS = (1, 6)
_IN_FLIGHT = (1, 5)
# The records to read per second of a round. They take a quarter of it with 1 KiB on two cores, and are filled in.
_READ_RECORDS_PER_S = 200_000

# The goals of this project compared with Apache Kafka on the same machine, as ratios; higher is better.
AIM_BULK, AIM_SMALL_REQUESTS, AIM_FOOTPRINT = 1.0, 1 / 3, 10.0


@attrs.frozen
class Figure:
    name: str
    unit: str
    value: float
    higher_is_better: bool = True
    aim: float | None = None


# A function that measures one node for some seconds.
Part = Callable[[Peer, float], list[Figure]]
# A function that measures a node or a cluster for some seconds.
LoadPart = Callable[[Subject, float], list[Figure]]


def startup(make: Callable[[], Peer]) -> list[Figure]:
    """Start a new node, and measure the time until its first Metadata response."""
    with make() as peer:
        time.sleep(1)
        return [
            Figure("start-up to first Metadata answer", "s", peer.startup_s, False, AIM_FOOTPRINT),
            Figure("resident memory, just started", "MB", processes.resident_mb(peer.pid), False, AIM_FOOTPRINT),
        ]


def idle(peer: Subject, seconds: float) -> list[Figure]:
    before = peer.cpu_seconds()
    time.sleep(seconds)
    used = peer.cpu_seconds() - before
    return [Figure("idle CPU", "% of a core", 100 * used / seconds, False)]


def memory(peer: Peer, _seconds: float) -> list[Figure]:
    return [Figure("resident memory, after the loads", "MB", processes.resident_mb(peer.pid), False, AIM_FOOTPRINT)]


def raw(load: raw_loads.RawLoad) -> Part:
    aim = AIM_BULK if load.unit == "MB/s" else AIM_SMALL_REQUESTS

    def part(peer: Peer, seconds: float) -> list[Figure]:
        with raw_loads.ready(load, peer) as ready:
            result = ready.run(seconds, min(0.5, seconds / 4))
        return [
            Figure(f"raw: {load.name}", load.unit, load.figure(result), True, aim),
            Figure(f"raw: {load.name}: server CPU", "us/request", result.server_cpu_us, False),
        ]

    return part


def producing(size_bytes: int, partitions: int) -> LoadPart:
    what = _what(size_bytes, partitions)

    def part(peer: Subject, seconds: float) -> list[Figure]:
        with topics.topic(peer, partitions) as topic:
            cpu = peer.cpu_seconds()
            wrote = client_loads.produce(peer.bootstrap, topic, size_bytes, seconds)
            cpu = peer.cpu_seconds() - cpu
        return [
            Figure(f"produce {what}", "MB/s", wrote.mb_per_s, True, AIM_BULK),
            Figure(f"produce {what}", "records/s", wrote.records_per_s),
            Figure(f"produce {what}: server CPU", "us/record", cpu / wrote.records * 1e6, False),
        ]

    return part


def consuming(size_bytes: int, partitions: int) -> LoadPart:
    """Read a filled topic from its beginning to its end."""
    what = _what(size_bytes, partitions)

    def part(peer: Subject, seconds: float) -> list[Figure]:
        with topics.topic(peer, partitions) as topic:
            records = int(_READ_RECORDS_PER_S * seconds)
            client_loads.fill(peer.bootstrap, topic, partitions, records, size_bytes)
            cpu = peer.cpu_seconds()
            read = client_loads.consume(peer.bootstrap, topic, partitions, records, size_bytes, seconds)
            cpu = peer.cpu_seconds() - cpu
        return [
            Figure(f"consume {what}", "MB/s", read.mb_per_s, True, AIM_BULK),
            Figure(f"consume {what}", "records/s", read.records_per_s),
            Figure(f"consume {what}: server CPU", "us/record", cpu / read.records * 1e6, False),
        ]

    return part


def _what(size_bytes: int, partitions: int) -> str:
    return f"{size_bytes} B, {partitions} partition{'s' * (partitions > 1)}"


def small_requests(in_flight: int) -> LoadPart:
    what = f"linger 0, one record per request, {in_flight} in flight"

    def part(peer: Subject, seconds: float) -> list[Figure]:
        with topics.topic(peer, 1) as topic:
            seen = client_loads.one_record_requests(peer.bootstrap, topic, in_flight, seconds)
        return [
            Figure(what, "requests/s", seen.requests_per_s, True, AIM_SMALL_REQUESTS),
            *_latencies(what, seen),
        ]

    return part


def paced(peer: Subject, seconds: float) -> list[Figure]:
    with topics.topic(peer, 1) as topic:
        seen = client_loads.paced_requests(peer.bootstrap, topic, _LATENCY_RATE, seconds)
    return _latencies(f"linger 0, {_LATENCY_RATE} requests/s", seen)


def _latencies(what: str, seen: client_loads.Latency) -> list[Figure]:
    return [
        Figure(f"{what}: p50", "ms", seen.p50_ms, False),
        Figure(f"{what}: p99", "ms", seen.p99_ms, False),
        Figure(f"{what}: p99.9", "ms", seen.p999_ms, False),
    ]


def replicated_parts() -> dict[str, LoadPart]:
    """The measurements that apply to a cluster as well as to a node."""
    parts: dict[str, LoadPart] = {"idle": idle}
    for size in _SIZES_BYTES:
        for partitions in _PARTITION_COUNTS:
            parts[f"producing {size} B x {partitions}"] = producing(size, partitions)
            parts[f"consuming {size} B x {partitions}"] = consuming(size, partitions)
    for in_flight in _IN_FLIGHT:
        parts[f"requests {in_flight} in flight"] = small_requests(in_flight)
    return parts | {"latency": paced}


def client_parts() -> dict[str, Part]:
    return {**replicated_parts(), "memory": memory}


def raw_parts() -> dict[str, Part]:
    return {f"raw {load.name}": raw(load) for load in raw_loads.ALL}


class Series:
    """The values of every figure per node, over the rounds."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes
        self._figures: dict[tuple[str, str], Figure] = {}
        self._values: dict[tuple[str, str], dict[str, list[float]]] = {}

    def add(self, node: str, figures: Iterable[Figure]) -> None:
        for figure in figures:
            key = (figure.name, figure.unit)
            self._figures[key] = figure
            self._values.setdefault(key, {}).setdefault(node, []).append(figure.value)

    def rows(self) -> list[list[str]]:
        """Name, unit, and the median of each node that has the figure; with two nodes also the ratio and its goal."""
        rows = []
        for key, figure in self._figures.items():
            medians = {node: median(values) for node, values in self._values[key].items()}
            row = [figure.name, figure.unit, *(number(medians[each]) if each in medians else "" for each in self.nodes)]
            if len(self.nodes) == 2:
                ours, theirs = map(medians.get, self.nodes)
                row += ["", "", ""] if ours is None or theirs is None else _compared(figure, ours, theirs)
            rows.append(row)
        return rows

    def as_json(self) -> list[dict[str, object]]:
        return [{"figure": name, "unit": unit, "values": values} for (name, unit), values in self._values.items()]


def _compared(figure: Figure, ours: float, theirs: float) -> list[str]:
    best, other = (ours, theirs) if figure.higher_is_better else (theirs, ours)
    ratio = best / other if other else float("inf")
    if figure.aim is None:
        return [f"{ratio:.2f}", "", ""]
    return [f"{ratio:.2f}", f"{figure.aim:.2f}", "met" if ratio >= figure.aim else "MISSED"]
