"""The data source "kraft", which Spark uses for `spark.read.format("kraft")` and the like.

Spark looks data sources up, and makes them, in processes of their own for each query. So a method imports what only it
needs: the client and Arrow would take most of a second of each.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from broker.spark.schema import columns_of, source_schema


class KraftDataSource(DataSource):
    """Reads topics of any Kafka-compatible cluster, with the options of Spark's connector "kafka"."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> str:
        """The connector's columns, and those of producers with includeProducer.

        A query that gives a schema of its own reads only the columns of that.
        """
        from broker.spark.options import OptionMap

        given = OptionMap(self.options)
        return source_schema(
            has_headers=given.flag("includeHeaders", default=False),
            has_producers=given.flag("includeProducer", default=False),
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        from broker.spark.batch_source import batch_reader
        from broker.spark.options import ReadOptions

        return batch_reader(ReadOptions.of(self.options, is_streaming=False), columns_of(_fields(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from broker.spark.options import ReadOptions
        from broker.spark.stream_source import KraftStreamReader

        return KraftStreamReader(ReadOptions.of(self.options, is_streaming=True), columns_of(_fields(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from broker.spark.options.write_options import WriteOptions
        from broker.spark.sink.writers import KraftBatchWriter

        return KraftBatchWriter(WriteOptions.of(self.options, is_streaming=False), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        """The output mode makes no difference: what a batch has is appended. Spark itself refuses `update`."""
        from broker.spark.options.write_options import WriteOptions
        from broker.spark.sink.writers import ExactlyOnceStreamWriter, KraftStreamWriter

        options = WriteOptions.of(self.options, is_streaming=True)
        if options.exactly_once is not None:
            return ExactlyOnceStreamWriter(options, options.exactly_once, schema)
        return KraftStreamWriter(options, schema)


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
