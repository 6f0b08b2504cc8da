"""Runs in a Delta table: one commit each, which Delta takes once by its application id and version."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load.manifest import TableCommit
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.results import JobFailed

_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Two jobs have committed the same run: Delta lets one of them fail.
_CONFLICT: Final = "ConcurrentTransactionException"
# Commits that are looked through for the one that was just made: other writers may have added some since.
_RECENT: Final = 50


class DeltaTable:
    """The table in a directory. `application` is the same for all runs of a destination."""

    def __init__(self, spark: SparkSession, files: JobFiles, path: str, options: LoadOptions, application: str) -> None:
        require_delta(spark)
        self._spark = spark
        self._files = files
        self._path = path
        self._options = options
        self._application = application

    def append(self, frame: DataFrame, run: int) -> TableCommit | None:
        attempt = uuid.uuid4().hex
        writer = (
            frame.write.format("delta")
            .mode("append")
            .partitionBy(*self._options.granularity.columns)
            .option("compression", self._options.compression)
            .option("txnAppId", self._application)
            .option("txnVersion", str(run))
            .option("userMetadata", json.dumps({"load": self._application, "run": run, "attempt": attempt}))
        )
        try:
            writer.save(self._uri)
        except (PySparkException, Py4JError) as error:
            if _CONFLICT in str(error):
                raise JobFailed(f"Another job has committed run {run} to {self._uri} at the same time") from error
            raise
        # Delta silently skips a run that it has already. Its history shows which job made the commit.
        return self._commit("attempt", attempt, _RECENT)

    def commit_of(self, run: int) -> TableCommit | None:
        return self._commit("run", run)

    def compact(self) -> None:
        sizes = {
            "spark.databricks.delta.optimize.maxFileSize": self._options.file_size,
            "spark.databricks.delta.optimize.minFileSize": self._options.file_size // 2,
        }
        with _configs(self._spark, sizes):
            self._spark.sql(f"OPTIMIZE {self._name}").collect()

    def rows(self) -> DataFrame:
        return self._spark.read.format("delta").load(self._uri)

    @property
    def _uri(self) -> str:
        return self._files.uri(self._path) if self._path else self._files.root

    @property
    def _name(self) -> str:
        return "delta.`{}`".format(self._uri.replace("`", "``"))

    def _commit(self, key: str, value: object, count: int | None = None) -> TableCommit | None:
        """The commit with this beside it, among the newest `count`."""
        row = next((row for row in self._history(count) if self._metadata(row).get(key) == value), None)
        if row is None:
            return None
        metrics = row.operationMetrics
        return TableCommit(
            version=row.version,
            records=int(metrics.get("numOutputRows", 0)),
            files=int(metrics.get("numFiles", 0)),
            size=int(metrics.get("numOutputBytes", 0)),
        )

    def _history(self, count: int | None) -> list[Row]:
        """The newest commits first; all that Delta still keeps, without `count`."""
        if not self._files.exists(f"{self._path}/_delta_log" if self._path else "_delta_log"):
            return []
        limit = "" if count is None else f" LIMIT {count}"
        return self._spark.sql(f"DESCRIBE HISTORY {self._name}{limit}").collect()

    def _metadata(self, row: Row) -> dict[str, Any]:
        """The metadata that a run of this load has added to its commit; empty for other commits."""
        try:
            content = json.loads(row.userMetadata or "null")
        except ValueError:
            return {}
        return content if isinstance(content, dict) and content.get("load") == self._application else {}


def require_delta(spark: SparkSession) -> None:
    """Raises JobFailed if the session has no Delta Lake."""
    context = spark.sparkContext
    assert context._jvm is not None, "a session of classic Spark has a JVM"
    is_absent = isinstance(context._jvm.io.delta.sql.DeltaSparkSessionExtension, JavaPackage)
    if is_absent or _EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        version = ".".join(spark.version.split(".")[:2])
        raise JobFailed(
            "This session has no Delta Lake. It needs --conf spark.jars.packages=io.delta:delta-spark_"
            f"{version}_2.13:VERSION, --conf spark.sql.extensions={_EXTENSION} and --conf "
            f"spark.sql.catalog.spark_catalog={_CATALOG}, where Delta has a VERSION for Spark {version}"
        )


@contextmanager
def _configs(spark: SparkSession, configs: dict[str, int]) -> Iterator[None]:
    """Some configs of the session, for the duration of the block."""
    before = {key: spark.conf.get(key, None) for key in configs}
    for key, value in configs.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
