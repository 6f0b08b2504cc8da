"""The records in a destination of `load`, as a DataFrame."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.failures import JobFailed
from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.load.manifest import DIRECTORY, ManifestLog, live_files

_INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
_TYPES: Final = {"date": "date", "hour": "int"}


def loaded(spark: SparkSession, destination: str) -> DataFrame:
    """The records of the committed runs: the columns of the connector, `date` and perhaps `hour`.

    A run that is being committed or compacted meanwhile is in it as a whole or not at all. Raises JobFailed if nothing
    was loaded there.
    """
    files = JobFiles(spark, destination)
    live = live_files(ManifestLog(files).all())
    if not live:
        raise JobFailed(f"Nothing was loaded into {files.root}")
    return read_files(spark, files, live)


def is_destination(spark: SparkSession, directory: str) -> bool:
    """True if `load` has written there."""
    return JobFiles(spark, directory).exists(DIRECTORY)


def read_files(spark: SparkSession, files: JobFiles, which: Sequence[StoredFile]) -> DataFrame:
    """The records of some files of a destination."""
    inferred = spark.conf.get(_INFERENCE)
    # A topic named 007 is not the number 7.
    spark.conf.set(_INFERENCE, "false")
    try:
        frame = spark.read.option("basePath", files.root).parquet(*(files.uri(file.path) for file in which))
    finally:
        spark.conf.set(_INFERENCE, str(inferred))
    for name, kind in _TYPES.items():
        if name in frame.columns:
            frame = frame.withColumn(name, F.col(name).cast(kind))
    return frame
