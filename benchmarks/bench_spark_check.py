"""`kraft spark check` on a large history: time, CPU time and memory, and whether it finds the planted anomalies.

    python -m benchmarks.bench_spark_check [--operations 50000000] [--keys N] [--planted 3] [--directory DIR]

The history has sends, polls and final reads of many partitions, and operations on many registers; it is written as
Parquet. Spark judges all of it, on this machine. Then the local checkers and Spark judge a sample: all operations of
some partitions and registers, with an anomaly of each kind among them. The exit code is 1 if the number of broken
promises differs from the planted anomalies, or if the two verdicts differ.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import report
from benchmarks.histories import LargeHistory, write_large_history
from benchmarks.memory_peaks import MemoryPeaks
from benchmarks.processes import family_cpu_seconds
from broker.spark.session import running_session
from jepsen.checkers import QUEUE_CHECKERS, REGISTER_CHECKERS, Verdict, judge
from jepsen.history import History
from jepsen.journal import operations_of
from jepsen.spark import check

CHECKERS: Final = (*QUEUE_CHECKERS, *REGISTER_CHECKERS)
_DRIVER_MEMORY: Final = "2g"
# The disk space per operation: for the history, for the parts of its operations, and for these again during the
# shuffle.
_BYTES_PER_OPERATION: Final = 250
# The number of keys without an anomaly in the sample, besides one with an anomaly of each kind.
_CLEAN_KEYS: Final = 2


@attrs.frozen
class Figures:
    """The time and memory for checking a history."""

    operations: int
    seconds: float
    cpu_seconds: float
    peaks_mb: dict[str, float]

    def rows(self) -> list[list[str]]:
        rate, cpu_us = self.operations / self.seconds, self.cpu_seconds / self.operations * 1e6
        rows = [
            ["seconds", report.number(self.seconds)],
            ["operations/s", report.number(rate)],
            ["CPU us/operation", report.number(cpu_us)],
        ]
        return rows + [[f"peak memory of {what}, MB", report.number(peak)] for what, peak in self.peaks_mb.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_spark_check")
    parser.add_argument("--operations", type=int, default=50_000_000)
    parser.add_argument("--keys", type=int, help="partitions; by default, one for 20,000 operations on partitions")
    parser.add_argument("--planted", type=int, default=3, help="anomalies of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="where the history and Spark's files are")
    options = parser.parse_args(arguments)
    try:
        history = LargeHistory.of(options.operations, options.planted, options.keys, options.seed)
        _ensure_space(options.directory, history.operations)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory(prefix="bench-spark-check-", dir=options.directory) as directory:
        return _measure(history, Path(directory), options.master)


def _ensure_space(directory: str, operations: int) -> None:
    """Raises ValueError if the disk has too little free space."""
    needed, free = operations * _BYTES_PER_OPERATION, shutil.disk_usage(directory).free
    if free < needed:
        raise ValueError(
            f"{operations:,} operations need {needed / 1e9:.1f} GB in {directory}, where {free / 1e9:.1f} GB are free"
        )


def _measure(history: LargeHistory, directory: Path, master: str) -> int:
    stored = directory / "history"
    stored.mkdir()
    began = time.perf_counter()
    size = write_large_history(history, stored)
    write_s = time.perf_counter() - began
    configs = {"spark.local.dir": str(directory / "spark"), "spark.driver.memory": _DRIVER_MEMORY}
    with running_session("kraft bench check", master=master, configs=configs, report=print) as spark:
        verdict, figures = _judge(spark, stored, history.operations)
        samples = _judge_sample(spark, history, stored, directory / "sample.parquet")
    rows = [
        ["operations", f"{history.operations:,}"],
        ["partitions, registers", f"{history.partitions:,}, {history.registers:,}"],
        ["bytes of Parquet", f"{size:,}"],
        ["seconds to write it", report.number(write_s)],
        *figures.rows(),
        ["operations in the sample", f"{sum(samples[0].counts.values()):,}"],
    ]
    print(report.table(["check", ""], rows), end="\n\n")
    broken, planted = _broken(verdict), history.plants.broken()
    promises = [[each.name, str(planted[each.name]), str(each.broken)] for each in verdict.promises]
    print(report.table(["promise", "planted", "found"], promises), end="\n\n")
    is_same = _outline(samples[0]) == _outline(samples[1])
    print(f"planted: {history.plants.counts()}\n{'found' if broken == planted else 'NOT FOUND'} as often as planted")
    print(f"local verdict on the sample: {'the same' if is_same else 'ANOTHER'}")
    saved = {"rows": rows, "figures": attrs.asdict(figures), "planted": planted, "broken": broken, "bytes": size}
    print(report.save("spark-check", saved))
    return 0 if broken == planted and is_same else 1


def _judge(spark: SparkSession, stored: Path, operations: int) -> tuple[Verdict, Figures]:
    began, cpu_began = time.perf_counter(), family_cpu_seconds(os.getpid())
    with MemoryPeaks() as peaks:
        verdict = check(spark, [str(stored)], CHECKERS)
    seconds, cpu_seconds = time.perf_counter() - began, family_cpu_seconds(os.getpid()) - cpu_began
    counted = sum(verdict.counts.values())
    assert counted == operations, f"{counted} operations were judged, not {operations}"
    return verdict, Figures(operations, seconds, cpu_seconds, peaks.peaks_mb())


def _judge_sample(spark: SparkSession, history: LargeHistory, stored: Path, path: Path) -> tuple[Verdict, Verdict]:
    """The verdicts of the local checkers and of Spark."""
    is_chosen = ds.field("process").isin(history.sample_processes(_CLEAN_KEYS))
    table = ds.dataset(stored).to_table(filter=is_chosen)
    pq.write_table(table, path)
    events = ({**row, "value": json.loads(row["value"]), "life": row["life"] or 0} for row in table.to_pylist())
    sample = History(lambda: 0.0)
    sample.operations = operations_of(events)
    return judge(sample, CHECKERS), check(spark, [str(path)], CHECKERS)


def _broken(verdict: Verdict) -> Counter[str]:
    return Counter({each.name: each.broken for each in verdict.promises if each.broken})


def _outline(verdict: Verdict) -> tuple[Any, ...]:
    anomalies = {each.name: Counter(anomaly.what for anomaly in each.anomalies) for each in verdict.promises}
    return dict(verdict.counts), _broken(verdict), anomalies


if __name__ == "__main__":
    sys.exit(main())
