"""A streaming job as a process that tests kill: one topic is copied to another topic and to Parquet at the same time.

`python -m tests.support.streaming_job '{"servers": "...", ...}'` runs until it is killed or, with `available_now`,
until it has read the present records. It prints a line when its queries run.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.spark import register
from tests.support.source_code import ROOT
from tests.support.spark_session import BRIEF_JVM, INTERPRETED_PLANS
from tests.support.stopped_sinks import StoppedSink

# A task is repeated beside its first attempt as soon as it takes longer than others.
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.memory": "512m",
}


@attrs.frozen
class StreamingJob:
    """The sources and destinations of the job. `directory` has the Parquet files, and the checkpoints of
    both queries. With `stops_at`, the exactly-once sink is a `StoppedSink`, whose stops leave files in `stops`.
    """

    servers: str
    input_topic: str
    output_topic: str
    directory: str
    available_now: bool = False
    rows_per_batch: int = 2_000
    # Failed tasks are retried, as on a cluster; local[2] would not retry.
    master: str = "local[2,4]"
    progress: str = ""
    exactly_once: bool = False
    has_parquet: bool = True
    is_speculative: bool = False
    # As a user's job does, if its processor time or memory is measured.
    compiles_plans: bool = False
    stops_at: str = ""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.streaming_job", json.dumps(attrs.asdict(self))]

    @property
    def parquet(self) -> str:
        return str(Path(self.directory) / "parquet")

    @property
    def topic_checkpoint(self) -> Path:
        return Path(self.directory) / "checkpoint-topic"

    @property
    def stops(self) -> Path:
        return Path(self.directory) / "stops"

    def run(self) -> None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(self.master).appName("streaming-job")  # type: ignore[attr-defined]
        settings: dict[str, Any] = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": BRIEF_JVM,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.sql.streaming.metricsEnabled": "false",
            "spark.sql.warehouse.dir": str(Path(self.directory) / "warehouse"),
            "spark.local.dir": str(Path(self.directory) / "local"),
        }
        if not self.compiles_plans:
            settings |= INTERPRETED_PLANS
        if self.is_speculative:
            settings |= _SPECULATION
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        if self.stops_at:
            self.stops.mkdir(exist_ok=True)
            spark.dataSource.register(StoppedSink)
        queries = [self._to_topic(spark), *([self._to_parquet(spark)] if self.has_parquet else [])]
        print("running", flush=True)
        if self.available_now:
            for query in queries:
                query.awaitTermination()
        else:
            # The first query that fails ends the process, which the test starts again.
            while all(query.isActive for query in queries):
                spark.streams.awaitAnyTermination(1)
                self._write_progress(queries)
            for query in queries:
                if query.exception() is not None:
                    print(query.exception(), file=sys.stderr)
            sys.exit(3)
        spark.stop()

    def _write_progress(self, queries: list[StreamingQuery]) -> None:
        if self.progress:
            found = {str(query.name): query.lastProgress and json.loads(query.lastProgress.json) for query in queries}
            partial = Path(f"{self.progress}.part")
            partial.write_text(json.dumps(found))
            partial.replace(self.progress)

    def _read(self, spark: SparkSession) -> Any:
        return (
            spark.readStream.format("kraft")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.input_topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(self.rows_per_batch))
            .load()
        )

    def _trigger(self) -> dict[str, Any]:
        return {"availableNow": True} if self.available_now else {"processingTime": "200 milliseconds"}

    def _to_parquet(self, spark: SparkSession) -> StreamingQuery:
        return (
            self._read(spark)
            .select("partition", "offset", "value")
            .writeStream.queryName("parquet")
            .format("parquet")
            .option("path", self.parquet)
            .option("checkpointLocation", str(Path(self.directory) / "checkpoint-parquet"))
            .trigger(**self._trigger())
            .start()
        )

    def _to_topic(self, spark: SparkSession) -> StreamingQuery:
        return (
            self._read(spark)
            .select("key", "value")
            .writeStream.queryName("topic")
            .format("kraft")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", self.output_topic)
            .option("exactlyOnce", str(self.exactly_once).lower())
            .option("stops", str(self.stops))
            .option("stopsAt", self.stops_at)
            .option("checkpointLocation", str(self.topic_checkpoint))
            .trigger(**self._trigger())
            .start()
        )


if __name__ == "__main__":
    StreamingJob(**json.loads(sys.argv[1])).run()
