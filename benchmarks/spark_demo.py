"""`make spark-demo`: a demonstration of the data pipeline on a new cluster, in about a minute.

    python -m benchmarks.spark_demo [--directory spark-demo] [--seconds 40] [--rate 2000]

Three nodes run on this machine. A generator writes orders as JSON: a few customers order most; some orders are late,
some are invalid JSON, some are tombstones. Meanwhile `kraft spark load` follows the topic and writes Parquet by day;
`kraft spark stats` computes statistics of the loaded data and renders a page. Needs Python, but no Java of the system.
"""

import argparse
import contextlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.clusters import Cluster, kraft_cluster
from broker.client import NewTopic, SyncAdmin, SyncProducer

TOPIC: Final = "orders"
_PARTITIONS: Final = 6
_EVERY: Final = "5s"
_SCHEMA: Final = "id bigint, customer string, amount double, items int"
# The generator ends this long before the load, so that the last records are loaded too.
_AFTER_S: Final = 8
_STEPS_PER_SECOND: Final = 20
_CUSTOMERS: Final = 5_000
_GENERATE: Final = "--generate-to"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_demo")
    parser.add_argument("--directory", type=Path, default=Path("spark-demo"), help="where files and the page are left")
    parser.add_argument("--seconds", type=float, default=40, help="how long the generator writes")
    parser.add_argument("--rate", type=float, default=2_000, help="records a second")
    parser.add_argument("--master", help="where Spark runs; by default on this machine")
    parser.add_argument(_GENERATE, metavar="SERVERS", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.generate_to is not None:
        generate(options.generate_to, options.seconds, options.rate)
        return 0
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    with kraft_cluster({"min.insync.replicas": "2"}) as cluster:
        return _run(cluster, options)


def generate(servers: str, seconds: float, rate: float) -> None:
    """Write orders at a rate."""
    rng = random.Random(1)
    began, number = time.monotonic(), 0
    with SyncProducer(servers, compression_type="zstd", linger_ms=20) as producer:
        while (passed := time.monotonic() - began) < seconds:
            for key, value, late_ms in _orders(rng, number, int(passed * rate)):
                now_ms = time.time_ns() // 1_000_000
                producer.send_soon(TOPIC, value, key=key, timestamp_ms=now_ms - late_ms)
                number += 1
            time.sleep(1 / _STEPS_PER_SECOND)
        producer.flush()
    print(f"generator: {number:,} orders", flush=True)


def _orders(rng: random.Random, first: int, end: int) -> Iterator[tuple[bytes, bytes | None, int]]:
    """Key, value and lateness of each order."""
    for number in range(first, end):
        # The first few customers order most.
        customer = f"customer-{min(int(rng.paretovariate(0.7)), _CUSTOMERS)}"
        order = {"id": number, "customer": customer, "amount": round(rng.lognormvariate(3, 1), 2)}
        value: bytes | None = json.dumps(order | {"items": rng.randint(1, 9)}).encode()
        kind = rng.random()
        if kind < 0.005:
            value = None
        elif kind < 0.01:
            value = b'{"id": "not a number"'
        yield customer.encode(), value, int(rng.expovariate(1 / 2_000)) if rng.random() < 0.05 else 0


def _run(cluster: Cluster, options: argparse.Namespace) -> int:
    print(f"cluster: three nodes at {cluster.bootstrap}", flush=True)
    with SyncAdmin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 3)]).raise_first()
    files, page = options.directory / "files", options.directory / "stats.html"
    master = [] if options.master is None else ["--master", options.master]
    seconds = options.seconds + _AFTER_S
    generator = [sys.executable, "-m", "benchmarks.spark_demo", _GENERATE, cluster.bootstrap]
    generator += ["--seconds", str(options.seconds), "--rate", str(options.rate)]
    load = [*_spark("load", cluster), TOPIC, "--to", str(files), "--format", "json", "--schema", _SCHEMA, *master]
    following = [*load, "--follow", "--every", _EVERY, "--for", f"{seconds:g}s"]
    with _running(generator) as writing, _running(following) as loading:
        codes = [writing.wait(), loading.wait()]
    # Load the records that were written while the load was ending.
    codes.append(subprocess.run(load, check=False).returncode)
    print("stats of what was loaded:", flush=True)
    measure = [*_spark("stats", cluster), "--files", str(files), "--page", str(page), *master]
    codes.append(subprocess.run(measure, check=False).returncode)
    print(f"files: {files}\npage: {page.resolve().as_uri()}")
    return max(map(abs, codes))


def _spark(job: str, cluster: Cluster) -> list[str]:
    return [sys.executable, "-m", "broker.cli", "spark", job, "-b", cluster.bootstrap]


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process within the block, and end it with the block."""
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
