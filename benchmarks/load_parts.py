"""The measurements of one node or cluster under one load for some seconds, which can alternate between nodes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import attrs

from benchmarks import client_loads, processes, raw_loads, topics
from benchmarks.figures import CLIENT_CPU, SERVER_CPU, Figure
from benchmarks.peers import Peer, Subject

_LATENCY_RATE = 500
# The records to read per second of a round. They take half of it with 1 KiB on two cores.
_READ_RECORDS_PER_S = 400_000
_READ_S_MAX = 20

# The goals of this project compared with Apache Kafka on the same machine, as ratios; higher is better.
AIM_BULK, AIM_SMALL_REQUESTS, AIM_FOOTPRINT = 1.0, 1 / 3, 10.0

# A function that measures one node for some seconds.
Part = Callable[[Peer, float], list[Figure]]
# A function that measures a node or a cluster for some seconds.
LoadPart = Callable[[Subject, float], list[Figure]]


@attrs.define
class CpuUse:
    """The CPU seconds of the servers and of this process, which is the client, within the block of `cpu_use`."""

    server_s: float = 0.0
    client_s: float = 0.0

    def figures(self, load: str, count: float, counted: str) -> list[Figure]:
        return cpu_figures(load, self.server_s / count * 1e6, self.client_s / count * 1e6, f"us/{counted}")


def cpu_figures(load: str, server: float, client: float, unit: str) -> list[Figure]:
    return [Figure(load + SERVER_CPU, unit, server, False), Figure(load + CLIENT_CPU, unit, client, False)]


@contextmanager
def cpu_use(peer: Subject) -> Iterator[CpuUse]:
    used = CpuUse()
    server_s, client_s = peer.cpu_seconds(), time.process_time()
    yield used
    used.server_s, used.client_s = peer.cpu_seconds() - server_s, time.process_time() - client_s


def startup(make: Callable[[], Peer]) -> list[Figure]:
    """Start a new node, and measure the time until its first Metadata response."""
    load = "start-up to first Metadata answer"
    with make() as peer:
        cpu_s = peer.cpu_seconds()
        time.sleep(1)
        return [
            Figure(load, "s", peer.startup_s, False, AIM_FOOTPRINT),
            Figure(load + SERVER_CPU, "s", cpu_s, False),
            Figure("resident memory, just started", "MB", processes.resident_mb(peer.pid), False, AIM_FOOTPRINT),
        ]


def idle(peer: Subject, seconds: float) -> list[Figure]:
    with cpu_use(peer) as used:
        time.sleep(seconds)
    return [Figure("idle CPU", "% of a core", 100 * used.server_s / seconds, False)]


def memory(peer: Peer, _seconds: float) -> list[Figure]:
    return [Figure("resident memory, after the loads", "MB", processes.resident_mb(peer.pid), False, AIM_FOOTPRINT)]


def raw(load: raw_loads.RawLoad) -> Part:
    aim = AIM_BULK if load.unit == "MB/s" else AIM_SMALL_REQUESTS
    name = f"raw: {load.name}"

    def part(peer: Peer, seconds: float) -> list[Figure]:
        with raw_loads.ready(load, peer) as ready:
            result = ready.run(seconds, min(0.5, seconds / 4))
        return [
            Figure(name, load.unit, load.figure(result), True, aim),
            *cpu_figures(name, result.server_cpu_us, result.client_cpu_us, "us/request"),
        ]

    return part


@attrs.frozen
class Load:
    """Records that clients write or read as fast as they can. `configs` are those of the producer."""

    name: str
    values: Sequence[bytes]
    partitions: int
    configs: Mapping[str, object] = attrs.field(factory=dict)


def plain_load(size_bytes: int, partitions: int) -> Load:
    name = f"{size_bytes:,} B, {partitions} partition{'s' * (partitions > 1)}"
    return Load(name, client_loads.zeros(size_bytes), partitions)


class FilledTopics:
    """Topics that are filled once for each node and load, and exist until the stack is closed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._names: dict[tuple[str, str], str] = {}

    def name(self, peer: Subject, load: Load, records: int) -> str:
        """The topic with the records of a load, which is filled at the first call."""
        key = (peer.name, load.name)
        if key not in self._names:
            topic = self._stack.enter_context(topics.topic(peer, load.partitions))
            configs = {**peer.client_configs, **load.configs}
            client_loads.fill(peer.bootstrap, topic, load.partitions, records, load.values, **configs)
            self._names[key] = topic
        return self._names[key]


def producing(load: Load) -> LoadPart:
    name = f"produce {load.name}"

    def part(peer: Subject, seconds: float) -> list[Figure]:
        configs = {**peer.client_configs, **load.configs}
        with topics.topic(peer, load.partitions) as topic, cpu_use(peer) as used:
            wrote = client_loads.produce(peer.bootstrap, topic, load.values, seconds, **configs)
        return [
            Figure(name, "records/s", wrote.records_per_s, True, AIM_BULK),
            *used.figures(name, wrote.records, "record"),
        ]

    return part


def consuming(load: Load, filled: FilledTopics) -> LoadPart:
    """Read a filled topic from its beginning to its end."""
    name = f"consume {load.name}"

    def part(peer: Subject, seconds: float) -> list[Figure]:
        records = int(_READ_RECORDS_PER_S * seconds)
        topic = filled.name(peer, load, records)
        with cpu_use(peer) as used:
            read = client_loads.consume(
                peer.bootstrap, topic, load.partitions, records, _READ_S_MAX, **peer.client_configs
            )
        return [
            Figure(name, "records/s", read.records_per_s, True, AIM_BULK),
            *used.figures(name, read.records, "record"),
        ]

    return part


def small_requests(in_flight: int) -> LoadPart:
    what = f"linger 0, one record per request, {in_flight} in flight"

    def part(peer: Subject, seconds: float) -> list[Figure]:
        with topics.topic(peer, 1) as topic, cpu_use(peer) as used:
            seen = client_loads.one_record_requests(peer.bootstrap, topic, in_flight, seconds, **peer.client_configs)
        return [
            Figure(what, "requests/s", seen.requests_per_s, True, AIM_SMALL_REQUESTS),
            *_latencies(what, seen),
            *used.figures(what, seen.requests, "request"),
        ]

    return part


def paced(peer: Subject, seconds: float) -> list[Figure]:
    what = f"linger 0, {_LATENCY_RATE} requests/s"
    with topics.topic(peer, 1) as topic, cpu_use(peer) as used:
        seen = client_loads.paced_requests(peer.bootstrap, topic, _LATENCY_RATE, seconds)
    return [*_latencies(what, seen), *used.figures(what, seen.requests, "request")]


def _latencies(what: str, seen: client_loads.Latency) -> list[Figure]:
    return [Figure(f"{what}: p50", "ms", seen.p50_ms, False), Figure(f"{what}: p99", "ms", seen.p99_ms, False)]
