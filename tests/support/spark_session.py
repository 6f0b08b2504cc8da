"""One Spark session for all tests of a process: a small JVM, two cores, no web page."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.source_code import ROOT

# Options of a JVM that runs for some minutes at most: only the fast compiler, which halves its processor time, and no
# verification of Spark's classes, which takes an eighth of it.
BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# Plans of a few rows are interpreted. Their compilation takes a quarter of the processor time of the tests.
INTERPRETED_PLANS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_SETTINGS = {
    **INTERPRETED_PLANS,
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": BRIEF_JVM,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


@contextmanager
def spark_session(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session, with its files in `directory`. Python workers find the checkout, and modules named pyspark_*."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    configs = {
        **_SETTINGS,
        **(settings or {}),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    session = SparkSession.builder.master("local[2]").config(map=configs).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
