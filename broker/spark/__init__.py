"""A data source of PySpark, named "kraft", and the jobs of the data pipeline. Needs the extra `spark`.

The source reads and writes topics through `broker.client`, in Arrow's columns. `import pyspark_kraft` or `register`
makes it known to a session; options, schema and refusals are those of Spark's Kafka connector (docs/spark.md).
"""

from broker.spark.registration import register

__all__ = ["register"]
