"""Test clusters of other projects, measured as ours are: franz-go's kfake, and librdkafka's mock cluster.

Each has three brokers, and is made and asked by its own client. The memory of a cluster is the growth of a process that
has many of them.
"""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from confluent_kafka import Producer

from benchmarks.apache_kafka import Unavailable

# Nothing here runs containers. The figures are those of one broker alone, without the start of its container.
PUBLISHED: Final = """Images that Testcontainers runs, as Kafka's proposal of a native image has measured them (source:
docs/testing.md), one broker without its container: apache/kafka starts in 1,150 to 1,200 ms, with 1 GB at most;
apache/kafka-native in 130 ms, with 250 MB at most"""
_KFAKE: Final = Path(__file__).with_name("kfake")
_BUILD_S: Final = 600
_FLUSH_S: Final = 60
_MOCK: Final = {"test.mock.num.brokers": "3", "acks": "all", "linger.ms": 0, "log_level": 0}


@attrs.frozen
class Measured:
    """The times from the call to the first acknowledged record, and the memory of a cluster."""

    times_ms: Sequence[float]
    memory_bytes: float


def measure_kfake(clusters: int) -> Measured:
    """Raises Unavailable without Go."""
    if shutil.which("go") is None:
        raise Unavailable("kfake is not measured: no go on PATH")
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/kfake"
        build = ["go", "build", "-o", program, "."]
        built = subprocess.run(build, cwd=_KFAKE, capture_output=True, text=True, timeout=_BUILD_S, check=False)
        if built.returncode:
            raise Unavailable(f"kfake is not measured: it cannot be built:\n{built.stderr}")
        done = subprocess.run([program, str(clusters)], capture_output=True, text=True, timeout=_BUILD_S, check=True)
    figures = json.loads(done.stdout)
    return Measured(figures["times_ms"], figures["bytes"])


def measure_mock_clusters(clusters: int) -> Measured:
    """A mock cluster is part of its client, whose own memory is not counted."""
    clients = [Producer({"log_level": 0}) for _ in range(2)]
    before = _resident_bytes()
    clients += [Producer({"log_level": 0}) for _ in range(clusters)]
    of_clients = _resident_bytes() - before
    clients += [Producer(_MOCK) for _ in range(clusters)]
    memory = (_resident_bytes() - before - 2 * of_clients) / clusters
    del clients
    return Measured([_time_mock_cluster() for _ in range(clusters)], max(0.0, memory))


def private_bytes(pid: int) -> int:
    """The memory that a process does not share with others."""
    found = re.findall(r"^Private_\w+: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return sum(map(int, found)) * 1024


def _time_mock_cluster() -> float:
    began = time.perf_counter()
    producer = Producer(_MOCK)
    producer.produce("orders", b"one")
    assert producer.flush(_FLUSH_S) == 0
    return (time.perf_counter() - began) * 1000


def _resident_bytes() -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, "the kernel says it of each process"
    return int(found[1]) * 1024
