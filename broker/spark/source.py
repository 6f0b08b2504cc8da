"""The data source "kraft": what Spark asks for by `spark.read.format("kraft")` and its relatives."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from broker.spark.batch_source import batch_reader
from broker.spark.options import OptionMap, ReadOptions
from broker.spark.options.write_options import WriteOptions
from broker.spark.schema import columns_of, source_schema
from broker.spark.sink.writers import KraftBatchWriter, KraftStreamWriter
from broker.spark.stream_source import KraftStreamReader


class KraftDataSource(DataSource):
    """Reads topics of any Kafka-compatible cluster, with the options of Spark's connector "kafka"."""

    @classmethod
    def name(cls) -> str:
        return "kraft"

    def schema(self) -> str:
        """The connector's columns. A query that gives a schema of its own reads only the columns of that."""
        return source_schema(has_headers=self._has_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        return batch_reader(ReadOptions.of(self.options, is_streaming=False), columns_of(_fields(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return KraftStreamReader(ReadOptions.of(self.options, is_streaming=True), columns_of(_fields(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return KraftBatchWriter(WriteOptions.of(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        """The output mode makes no difference, as for Spark's connector: what a batch has is appended."""
        return KraftStreamWriter(WriteOptions.of(self.options), schema)

    @property
    def _has_headers(self) -> bool:
        return OptionMap(self.options).flag("includeHeaders", default=False)


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
