"""A streaming job as a process that tests kill: one topic is copied to Parquet and to another topic at the same time.

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


@attrs.frozen
class StreamingJob:
    """The sources and destinations of the job. `directory` has the Parquet files, and the checkpoints of
    both queries.
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

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.streaming_job", json.dumps(attrs.asdict(self))]

    @property
    def parquet(self) -> str:
        return str(Path(self.directory) / "parquet")

    def run(self) -> None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(self.master).appName("streaming-job")  # type: ignore[attr-defined]
        settings: dict[str, Any] = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.streaming.metricsEnabled": "false",
            "spark.sql.warehouse.dir": str(Path(self.directory) / "warehouse"),
            "spark.local.dir": str(Path(self.directory) / "local"),
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        queries = [self._to_parquet(spark), self._to_topic(spark)]
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
            .option("checkpointLocation", str(Path(self.directory) / "checkpoint-topic"))
            .trigger(**self._trigger())
            .start()
        )


if __name__ == "__main__":
    StreamingJob(**json.loads(sys.argv[1])).run()
