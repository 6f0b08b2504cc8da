"""Makes the data source known to a Spark session."""

import os
import sys
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log: Final = getLogger(__name__)

_PYTHON: Final = "PYSPARK_PYTHON"
# The Python of Spark's workers where nothing names one: the first on the PATH.
_SPARKS_DEFAULT: Final = "python3"


def register(spark: "SparkSession") -> None:
    """Registers the data source, so that `spark.read.format("kraft")` and the like find it.

    In a session on this machine whose workers would run the first `python3` on the PATH, they run this Python from then
    on: that one may be outside of the virtual environment, and lack this package.
    """
    from broker.spark.source import KraftDataSource

    # Sessions of Spark Connect have no context in this process.
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        _use_this_python(context)
    spark.dataSource.register(KraftDataSource)


def _use_this_python(context: Any) -> None:
    is_chosen = _PYTHON in os.environ or context.pythonExec != _SPARKS_DEFAULT
    if not is_chosen and context.master.startswith("local"):
        _log.info("%s is not set: Spark's workers run %s", _PYTHON, sys.executable)
        context.pythonExec = sys.executable
