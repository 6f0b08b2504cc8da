"""How fast a test gets a cluster, beside a plain `kraft cluster start` in the same run.

    python -m benchmarks.bench_test_clusters [--runs 20]

The times are those of the test's process. CPU time is that of the nodes until they serve, which a busy machine disturbs
less. At the end all processes and directories that the clusters have had must be gone. In the same run, test clusters
of other projects are measured from the call to the first acknowledged record.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
from confluent_kafka import Producer

from benchmarks.apache_kafka import Unavailable
from benchmarks.other_test_clusters import PUBLISHED, measure_kfake, measure_mock_clusters, private_bytes
from benchmarks.report import median, number, table
from jepsen.processes.server_process import cpu_seconds_of
from jepsen.testing import Cluster
from jepsen.testing.server_lease import ServerLease

_KRAFT: Final = str(Path(sys.executable).with_name("kraft"))
_SERVES: Final = re.compile(rb"all nodes serve clients")
_FIRST_RUNS: Final = 3
_FLUSH_S: Final = 60
_OURS: Final = "kraft, 3 nodes"
_OTHERS: Final = {"kfake, 3 brokers": measure_kfake, "librdkafka's mock cluster, 3 brokers": measure_mock_clusters}
_OTHERS_HEAD: Final = ("first acknowledged record", "median ms", "least ms", "MB per cluster")
_HEAD: Final = ("what", "median ms", "least ms", "aim ms", "CPU ms of the nodes")


@attrs.define
class Figures:
    """Times in milliseconds by what was measured, and CPU times of nodes in milliseconds."""

    times: dict[str, list[float]] = attrs.field(factory=dict)
    cpu: dict[str, list[float]] = attrs.field(factory=dict)
    aims: dict[str, float] = attrs.field(factory=dict)
    memory: list[float] = attrs.field(factory=list)

    @contextmanager
    def timed(self, name: str, aim_ms: float) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.add_time(name, began, aim_ms)

    def add_time(self, name: str, began: float, aim_ms: float) -> None:
        """The time since `began`, of `time.perf_counter`."""
        self.aims[name] = aim_ms
        self.times.setdefault(name, []).append((time.perf_counter() - began) * 1000)

    def add_cpu(self, name: str, pids: list[int]) -> None:
        self.cpu.setdefault(name, []).append(sum(map(cpu_seconds_of, pids)) * 1000)

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (
                name,
                number(median(times)),
                number(min(times)),
                number(self.aims[name]) if self.aims[name] else "",
                number(median(self.cpu[name])) if name in self.cpu else "",
            )
            for name, times in self.times.items()
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="clusters of each kind")
    runs = parser.parse_args().runs
    figures = Figures()
    left: list[Path] = []
    for _ in range(_FIRST_RUNS):
        _measure_plain(figures)
        with figures.timed("first node of a session", 400):
            server = ServerLease.start()
            cluster = Cluster(1, server=server)
        left += _traces(cluster)
        server.release()
    server = ServerLease.start()
    for _ in range(runs):
        left += _measure_single(figures, server)
        left += _measure_three(figures, server)
    directory = Path(server.client.request("GET", "/")["directory"])
    server.release()
    others = _measure_others(runs)
    _wait_until(lambda: not any(each.exists() for each in [*left, directory]))
    print(table(_HEAD, figures.rows()))
    ours = (_OURS, figures.times[_OURS], median(figures.memory))
    print()
    print(table(_OTHERS_HEAD, [_row(*each) for each in (ours, *others)]))
    print(f"\n{PUBLISHED}")
    print(f"\n{len(left)} processes and directories of nodes are gone")


def _measure_others(runs: int) -> list[tuple[str, Sequence[float], float]]:
    """The name of each, its times in milliseconds, and the memory of a cluster in bytes."""
    measured = []
    for name, measure in _OTHERS.items():
        try:
            found = measure(runs)
            measured.append((name, found.times_ms, found.memory_bytes))
        except Unavailable as why:
            print(why)
    return measured


def _row(name: str, times_ms: Sequence[float], memory_bytes: float) -> tuple[str, ...]:
    return name, number(median(times_ms)), number(min(times_ms)), number(memory_bytes / 1e6)


def _measure_plain(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as directory:
        command = [_KRAFT, "cluster", "start", "--nodes", "3", "--first-port", "0", "--dir", f"{directory}/data"]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None, "it was started with a pipe"
            for line in process.stdout:
                if _SERVES.search(line):
                    figures.add_time("kraft cluster start, 3 nodes", began, 0)
                    process.terminate()


def _measure_single(figures: Figures, server: ServerLease) -> list[Path]:
    with figures.timed("further node", 40):
        cluster = Cluster(1, server=server)
    figures.add_cpu("further node", [node["pid"] for node in cluster.nodes])
    traces = _traces(cluster)
    with figures.timed("end of a node", 0):
        cluster.close()
    return traces


def _measure_three(figures: Figures, server: ServerLease) -> list[Path]:
    began = time.perf_counter()
    with figures.timed("3 nodes ready for acks=all to 3 replicas", 150):
        with figures.timed("3 nodes, formatted, serve", 90):
            cluster = Cluster(3, server=server)
        figures.add_cpu("3 nodes, formatted, serve", [node["pid"] for node in cluster.nodes])
        topic = cluster.topic("orders", replicas=3)
    with figures.timed("first acknowledgement to confluent-kafka", 0):
        producer = Producer({**cluster.config(), "acks": "all", "linger.ms": 0, "log_level": 0})
        producer.produce(topic, b"one")
        assert producer.flush(_FLUSH_S) == 0
    figures.add_time(_OURS, began, 0)
    figures.memory.append(sum(private_bytes(node["pid"]) for node in cluster.nodes))
    traces = _traces(cluster)
    with figures.timed("end of 3 nodes", 30):
        cluster.close()
    return traces


def _traces(cluster: Cluster) -> list[Path]:
    """The processes and the directories of a cluster."""
    nodes = cluster.nodes
    return [*(Path(f"/proc/{node['pid']}") for node in nodes), *(Path(node["log"]).parent for node in nodes)]


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _FLUSH_S
    while not holds():
        assert time.monotonic() < deadline, "something of the clusters is left"
        time.sleep(0.01)


if __name__ == "__main__":
    main()
