"""One Spark session that reads a topic several times, in its own process, and prints the figures as JSON.

python -m benchmarks.spark_reads kraft|kafka BOOTSTRAP TOPIC [--turns 3] [--jars ...] [--check]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks import processes

_CORES: Final = 2
_DRIVER_MEMORY: Final = "2g"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_reads")
    parser.add_argument("source", choices=["kraft", "kafka"])
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--jars", default="")
    parser.add_argument("--java-options", default="", help="of the driver's JVM")
    parser.add_argument("--check", action="store_true", help="sums over all rows instead of figures")
    options = parser.parse_args()
    spark = _session(options.jars, options.java_options)
    if options.source == "kraft":
        from broker.spark import register

        register(spark)

    def frame(*columns: str) -> DataFrame:
        return _frame(spark, options.source, options.bootstrap, options.topic, columns)

    result = _sums(frame()) if options.check else _figures(frame, options.turns)
    print(json.dumps(result))
    spark.stop()


def _session(jars: str, java_options: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": _DRIVER_MEMORY,
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": java_options,
        **({"spark.jars": jars} if jars else {}),
    }
    return SparkSession.builder.master(f"local[{_CORES}]").config(map=settings).getOrCreate()


def _frame(spark: SparkSession, source: str, bootstrap: str, topic: str, columns: tuple[str, ...]) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    if columns and source == "kraft":
        return reader.schema(", ".join(f"{name} binary" for name in columns)).load()
    return reader.load().select(*columns) if columns else reader.load()


def _figures(frame: Callable[..., DataFrame], turns: int) -> dict[str, list[list[float]]]:
    """Seconds and CPU seconds of each repetition. Only the first one of the process is cold."""
    queries: dict[str, Callable[[], Any]] = {
        "all columns": lambda: frame().write.format("noop").mode("append").save(),
        "three columns, aggregated": lambda: (
            frame()
            .select(sf.length("value").alias("size"), "offset", "timestamp")
            .agg(sf.count("*"), sf.sum("size"), sf.max("offset"), sf.max("timestamp"))
            .collect()
        ),
        "value only": lambda: frame("value").write.format("noop").mode("append").save(),
    }
    figures = {"cold": [_seconds(queries["all columns"])]}
    for name, query in queries.items():
        query()  # the JVM compiles code that runs often
        figures[name] = [_seconds(query) for _ in range(turns)]
    return figures


def _seconds(query: Callable[[], Any]) -> list[float]:
    began, cpu_began = time.perf_counter(), _cpu_seconds()
    query()
    return [time.perf_counter() - began, _cpu_seconds() - cpu_began]


def _cpu_seconds() -> float:
    """The CPU time of the driver, its JVM and the Python workers."""
    return sum(processes.cpu_seconds(pid) for pid in processes.family(os.getpid()))


def _sums(rows: DataFrame) -> dict[str, list[int]]:
    """For each partition, the number of its rows and the sum of their checksums."""
    row = sf.concat(
        sf.coalesce("key", sf.lit("").cast("binary")),
        "value",
        sf.concat_ws("/", "topic", "partition", "offset", sf.unix_millis("timestamp")).cast("binary"),
    )
    found = rows.groupBy("partition").agg(sf.count("*").alias("rows"), sf.sum(sf.crc32(row)).alias("sum")).collect()
    return {str(each["partition"]): [each["rows"], each["sum"]] for each in found}


if __name__ == "__main__":
    main()
