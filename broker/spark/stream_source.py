"""Reading topics as a stream, in micro-batches."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from broker.spark.options import ReadOptions
from broker.spark.ranges import OffsetRange, split_ranges
from broker.spark.reading import read_range
from broker.spark.streaming.batches import MicroBatches
from broker.spark.streaming.stream_offsets import StreamOffsets


class KraftStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming source as Spark calls it: a process on the driver plans batches, tasks read them.

    Spark asks for the latest offset about every 12 ms while there is nothing to read.
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        # Made when it is first needed: tasks get a copy of the reader, and need none.
        self._batches: MicroBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._planned().initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of one trigger. Spark passes it back, or ReadAllAvailable for Trigger.Once.

        Spark takes a single limit: `latestOffset` applies all that the options set unless it is to read all.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._planned().fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the end of the next batch; `start` itself if there is none yet."""
        position = StreamOffsets.of_json(start)
        end = self._planned().next_end(position, is_limited=not isinstance(limit, ReadAllAvailable))
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The ends of the partitions, and the query's lag, for the query's progress."""
        return self._planned().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a batch, split by minPartitions and maxRecordsPerPartition."""
        if start == end:
            return []
        ranges = self._planned().ranges(StreamOffsets.of_json(start), StreamOffsets.of_json(end))
        parts = split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of Arrow, with the columns that were asked for."""
        part: OffsetRange = partition.value
        return read_range(part, self._columns, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits the offsets of a batch to the group, where `latestOffset` has not done so before."""
        self._planned().commit(StreamOffsets.of_json(end))

    def stop(self) -> None:
        """Closes the clients."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def _planned(self) -> MicroBatches:
        if self._batches is None:
            self._batches = MicroBatches.open(self._options)
        return self._batches
