"""Runs in an Iceberg table: a snapshot each, which is staged under the run's id and then published once.

Appends to Iceberg never conflict, so two jobs that finish the same run could both add its rows. Publishing a staged
snapshot does conflict: Iceberg refuses an id (`wap.id`) that the table's current state has already.
"""

import uuid
from collections.abc import Mapping
from typing import Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.load.manifest import TableCommit
from broker.spark.jobs.load.options import LoadOptions
from broker.spark.jobs.results import JobFailed

_STAGES: Final = "write.wap.enabled"
_STAGED_ID: Final = "spark.wap.id"
_ATTEMPT: Final = "kraft-load-attempt"
_DUPLICATES: Final = ("DuplicateWAPCommitException", "CherrypickAncestorCommitException")


class IcebergTable:
    """The table of a name in a catalog of the session. `application` is the same for all runs of a destination."""

    def __init__(self, spark: SparkSession, name: str, options: LoadOptions, application: str) -> None:
        require_iceberg(spark, name)
        self._spark = spark
        self._name = name
        self._options = options
        self._application = application

    def append(self, frame: DataFrame, run: int) -> TableCommit | None:
        self._create(frame)
        if self.commit_of(run) is not None:
            return None
        attempt = uuid.uuid4().hex
        writer = frame.writeTo(self._name).option(f"snapshot-property.{_ATTEMPT}", attempt)
        # The rows of a task are ordered already; Iceberg would shuffle them.
        writer.option("distribution-mode", "none").option("compression-codec", self._options.compression)
        self._spark.conf.set(_STAGED_ID, self._id(run))
        try:
            writer.append()
        finally:
            self._spark.conf.unset(_STAGED_ID)
        return self.commit_of(run) if self._publish(attempt) else None

    def commit_of(self, run: int) -> TableCommit | None:
        if not self._exists():
            return None
        published = self._snapshots().join(self._history(), "snapshot_id").where("is_current_ancestor")
        summary = F.col("summary")
        is_of_run = (summary["wap.id"] == self._id(run)) | (summary["published-wap-id"] == self._id(run))
        row = published.where(is_of_run).select("snapshot_id", "summary").head()
        return None if row is None else _commit(row.snapshot_id, row.summary)

    def compact(self) -> None:
        sizes = {"target-file-size-bytes": self._options.file_size, "min-input-files": 2}
        options = ", ".join(f"'{key}', '{value}'" for key, value in sizes.items())
        self._call("rewrite_data_files", f"options => map({options})")

    def rows(self) -> DataFrame:
        return self._spark.table(self._name)

    def _id(self, run: int) -> str:
        return f"{self._application}-{run}"

    def _exists(self) -> bool:
        return self._spark.catalog.tableExists(self._name)

    def _snapshots(self) -> DataFrame:
        self._spark.catalog.refreshTable(self._name)
        return self._spark.table(f"{self._name}.snapshots")

    def _history(self) -> DataFrame:
        return self._spark.table(f"{self._name}.history").select("snapshot_id", "is_current_ancestor")

    def _create(self, frame: DataFrame) -> None:
        """Create the table, unless it is there, and let it stage snapshots."""
        if not self._exists():
            columns = ", ".join(self._options.granularity.columns)
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._name} ({frame.schema.toDDL()}) USING iceberg "
                f"PARTITIONED BY ({columns}) TBLPROPERTIES ('{_STAGES}' = 'true')"
            )
        properties = {row.key: row.value for row in self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()}
        if properties.get(_STAGES) != "true":
            self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('{_STAGES}' = 'true')")

    def _publish(self, attempt: str) -> bool:
        """Make a staged snapshot part of the table. False if another job has published the same run."""
        staged = self._snapshots().where(F.col("summary")[_ATTEMPT] == attempt).select("snapshot_id").head()
        if staged is None:
            raise JobFailed(f"{self._name} has staged no snapshot: {_STAGES} is not true")
        try:
            self._call("cherrypick_snapshot", f"snapshot_id => {staged.snapshot_id}")
        except (PySparkException, Py4JError) as error:
            if any(name in str(error) for name in _DUPLICATES):
                return False
            raise
        return True

    def _call(self, procedure: str, arguments: str) -> None:
        catalog, _, table = self._name.partition(".")
        self._spark.sql(f"CALL {catalog}.system.{procedure}(table => '{table}', {arguments})").collect()


def require_iceberg(spark: SparkSession, name: str) -> None:
    """Raises JobFailed if the session has no Iceberg, or no catalog of that name."""
    context = spark.sparkContext
    assert context._jvm is not None, "a session of classic Spark has a JVM"
    catalog = name.partition(".")[0]
    is_absent = isinstance(context._jvm.org.apache.iceberg.spark.SparkCatalog, JavaPackage)
    if is_absent or spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
        version = ".".join(spark.version.split(".")[:2])
        raise JobFailed(
            f"This session has no Iceberg, or no catalog {catalog!r}. It needs --conf spark.jars.packages="
            f"org.apache.iceberg:iceberg-spark-runtime-{version}_2.13:VERSION, --conf spark.sql.catalog.{catalog}="
            f"org.apache.iceberg.spark.SparkCatalog and the catalog's own configs, where Iceberg has a VERSION for "
            f"Spark {version}"
        )


def _commit(snapshot: int, summary: Mapping[str, str]) -> TableCommit:
    return TableCommit(
        version=snapshot,
        records=int(summary.get("added-records", 0)),
        files=int(summary.get("added-data-files", 0)),
        size=int(summary.get("added-files-size", 0)),
    )
