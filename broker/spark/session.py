"""A SparkSession for the jobs: on this machine, or on the cluster that --master or spark-submit names."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.spark.java import prepare_environment
from broker.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Set by spark-submit: the JVM runs already, with a Java and configs that are not ours to choose.
_RUNNING_JVM: Final = "PYSPARK_GATEWAY_PORT"
# Where one of these is set, Spark is configured by its own files, which may say how it logs.
_INSTALLATION: Final = ("SPARK_HOME", "SPARK_CONF_DIR")
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    # The UI costs a port and memory, and is of little use to a short job.
    "spark.ui.enabled": "false",
}


@contextmanager
def running_session(
    name: str,
    *,
    master: str | None = None,
    configs: Mapping[str, str] | None = None,
    report: Callable[[str], object] = lambda line: None,
) -> "Iterator[SparkSession]":
    """A session that knows the source "kraft", and stops when the block ends. An active one is used as it is.

    `master` is Spark's: `spark://host:port`, `k8s://...`, `yarn`, `local[4]`. Without it, that of spark-submit or of
    spark-defaults.conf counts, else all cores of this machine. `report` is called with the Java that runs.

    Raises NoJava.
    """
    if _RUNNING_JVM not in os.environ:
        report(f"Spark runs in {prepare_environment(os.environ)}")
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    session = before or _new_session(name, master, configs or {})
    register(session)
    try:
        yield session
    finally:
        if before is None:
            session.stop()


def _new_session(name: str, master: str | None, configs: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    for key, value in {**_DEFAULTS, **_logging(os.environ), **progress, **configs}.items():
        builder = builder.config(key, value)
    return (builder if master is None else builder.master(master)).getOrCreate()


def _logging(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The configs of the driver's log: errors only. Spark's default begins each job with ten lines of warnings."""
    if any(name in environ for name in _INSTALLATION):
        return {"spark.log.level": "ERROR"}
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"}
