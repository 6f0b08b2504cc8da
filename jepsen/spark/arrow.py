"""Functions over the Arrow batches of a DataFrame."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

_LIMIT: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
# A single event may contain a whole partition, and by default Spark sends a worker 10,000 rows at once.
_LIMIT_BYTES: Final = 32 << 20


@contextmanager
def limited_batches(spark: SparkSession) -> Iterator[None]:
    """Limit the bytes of each Arrow batch for jobs started within the block, so that a batch fits a worker's memory."""
    before = spark.conf.get(_LIMIT)
    spark.conf.set(_LIMIT, str(_LIMIT_BYTES))
    try:
        yield
    finally:
        spark.conf.set(_LIMIT, str(before))


def map_batches(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Like `DataFrame.mapInArrow`, which refuses to run without pandas although Arrow batches do not need it."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    of_batches = UserDefinedFunction(function, StructType.fromDDL(schema), evalType=kind)
    column = of_batches(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
