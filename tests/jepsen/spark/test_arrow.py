"""Batches between Spark and its workers."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from jepsen.spark import arrow
from jepsen.spark.arrow import limited_batches, map_batches

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"


def test_batch_of_large_rows_has_few_of_them(spark: SparkSession) -> None:
    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    before = spark.conf.get(LIMIT)
    with limited_batches(spark):
        large = spark.range(24, numPartitions=1).selectExpr(f"repeat('x', {4 << 20}) as text")
        rows = map_batches(large, sizes, "rows bigint, bytes bigint").collect()
    assert sum(row["rows"] for row in rows) == 24
    assert max(row["bytes"] for row in rows) <= arrow._LIMIT_BYTES + (5 << 20)
    assert spark.conf.get(LIMIT) == before
