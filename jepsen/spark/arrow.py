"""Functions over the Arrow batches of a DataFrame."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType


def map_batches(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """`DataFrame.mapInArrow`, which refuses to run where pandas is not installed, though Arrow batches need none."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    of_batches = UserDefinedFunction(function, StructType.fromDDL(schema), evalType=kind)
    column = of_batches(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
