"""Reading topics once, from a start to an end that are known when the query is planned."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from broker.spark.cluster_offsets import ClusterOffsets
from broker.spark.options import ReadOptions, log_remarks
from broker.spark.predicates import Bounds, narrow, push
from broker.spark.ranges import OffsetRange, split_ranges
from broker.spark.reading import read_range


class KraftReader(DataSourceReader):
    """Plans ranges of offsets on the driver, and reads one of them in each task."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._bounds = Bounds()
        log_remarks(options.remarks)

    def partitions(self) -> list[InputPartition]:
        """The ranges, split by minPartitions and maxRecordsPerPartition."""
        options = self._options
        with ClusterOffsets(options) as cluster:
            ranges = narrow(cluster.ranges(), self._bounds, cluster.at_times, options.max_timestamp_lateness_ms)
        parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        # Spark would make one task without a partition of an empty list.
        return [InputPartition(part) for part in parts] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of Arrow, with the columns that were asked for."""
        part: OffsetRange | None = partition.value
        return iter(()) if part is None else read_range(part, self._columns, self._options)


class FilteringKraftReader(KraftReader):
    """Takes predicates over from Spark.

    A class of its own: Spark refuses readers with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is on.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Returns the filters that Spark has to apply itself."""
        self._bounds, left = push(filters)
        return left


def batch_reader(options: ReadOptions, columns: tuple[str, ...]) -> DataSourceReader:
    """The reader of a batch query."""
    return FilteringKraftReader(options, columns) if options.is_filter_pushed else KraftReader(options, columns)
