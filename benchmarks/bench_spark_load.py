"""`kraft spark load` of a large topic: killed and resumed, then run once more with nothing left to load.

    python -m benchmarks.bench_spark_load [--gigabytes 10] [--size 1024] [--kills 3] [--records-per-run 1000000]

A cluster of three nodes holds a topic of 6 partitions and 3 replicas, compressed by zstd. One load runs without faults
and is timed. Another one is killed several times, with its JVM and workers, and resumed. The offsets in the files of
both are compared with those of the topic. The exit code is 1 if an offset is missing or duplicated.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.dataset as ds

from benchmarks import report, topics
from benchmarks.clusters import kraft_cluster
from benchmarks.loadgen import LoadFailed
from benchmarks.spark_topics import PARTITIONS, TIMEOUT_S, Load, fill

_GIGABYTE: Final = 10**9
# The three replicas are compressed to a bit more than half, and each of two destinations to less than that.
_DISK_PER_BYTE: Final = 3
_HEAD: Final = ("load", "seconds", "records/s", "MB/s", "runs", "files", "MB in files", "largest MB", "smallest MB")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_spark_load")
    parser.add_argument("--gigabytes", type=float, default=10, help="of values, before they are compressed")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a value")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--records-per-run", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    load = Load("", int(options.gigabytes * _GIGABYTE / options.size), options.size, "zstd")
    with tempfile.TemporaryDirectory(prefix="kraft-bench-") as temporary:
        needed = int(load.records * load.size_bytes * _DISK_PER_BYTE)
        if shutil.disk_usage(temporary).free < needed:
            print(f"needs {needed / _GIGABYTE:.0f} GB of free disk in {temporary}; fewer --gigabytes need less")
            return 2
        return _run(load, options, Path(temporary))


def _run(load: Load, options: argparse.Namespace, directory: Path) -> int:
    with kraft_cluster() as cluster, topics.topic(cluster, PARTITIONS) as topic:
        seconds = fill(cluster.bootstrap, topic, load)
        print(f"... {load.records} records written in {seconds:.1f} s", file=sys.stderr)
        command = [sys.executable, "-m", "broker.cli", "spark", "load", topic, "-b", cluster.bootstrap, "--json"]
        command += ["--records-per-run", str(options.records_per_run)]
        whole, killed = directory / "whole", directory / "killed"
        rows = [_finish("from the start", [*command, "--to", str(whole)], load, whole)]
        rows.append(_finish("again", [*command, "--to", str(whole)], load, whole))
        spoiled = _missing_or_repeated(whole, load.records)
        random_ = random.Random(1)
        kills = sorted(random_.randrange(_runs(whole)) for _ in range(options.kills))
        for after_runs in kills:
            _start_and_kill([*command, "--to", str(killed)], killed, after_runs, random_)
        rows.append(_finish(f"the rest, after {len(kills)} kills", [*command, "--to", str(killed)], load, killed))
        spoiled += _missing_or_repeated(killed, load.records)
    print(report.table(_HEAD, rows))
    print(f"{spoiled} offsets are missing or there twice, of {2 * load.records}")
    return bool(spoiled)


def _finish(name: str, command: list[str], load: Load, destination: Path) -> list[str]:
    """Run a load to its end. Returns the row of its figures."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise LoadFailed(f"load has failed:\n{done.stderr[-3000:]}")
    told = json.loads(done.stdout)
    sizes = [path.stat().st_size / 1e6 for path in destination.glob("topic=*/**/*.parquet")]
    rates = [told["records"] / seconds, told["records"] * load.size_bytes / seconds / 1e6]
    figures = [seconds, *rates, told["runs"], len(sizes), sum(sizes), max(sizes), min(sizes)]
    return [name, *map(report.number, figures)]


def _start_and_kill(command: list[str], destination: Path, after_runs: int, random_: random.Random) -> None:
    """Start a load, and kill it with its JVM and workers when `after_runs` runs are committed, at least one of them by
    it.
    """
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        wanted = max(after_runs, _runs(destination) + 1)
        while _runs(destination) < wanted:
            if job.poll() is not None or time.monotonic() > deadline:
                raise LoadFailed(f"load ended with {job.returncode} before it was killed")
            time.sleep(0.01)
        time.sleep(random_.uniform(0, 2))
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    print(f"... killed after {_runs(destination)} runs", file=sys.stderr)


def _runs(destination: Path) -> int:
    """The number of committed runs, without those that only compacted files."""
    manifests = (json.loads(path.read_text()) for path in (destination / "_manifests").glob("0*.json"))
    return sum(each["kind"] == "load" for each in manifests)


def _missing_or_repeated(destination: Path, records: int) -> int:
    """The number of offsets of the topic that are missing, or in more than one row."""
    rows = ds.dataset(destination, format="parquet", exclude_invalid_files=False).to_table(["partition", "offset"])
    partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
    spoiled = 0
    for partition in range(PARTITIONS):
        expected = len(range(partition, records, PARTITIONS))
        of_partition = offsets[partitions == partition]
        counts = np.bincount(of_partition, minlength=expected)
        spoiled += int(np.count_nonzero(counts[:expected] != 1) + counts[expected:].sum())
    return spoiled


if __name__ == "__main__":
    sys.exit(main())
