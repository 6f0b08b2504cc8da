"""The cluster that a job works with: finds its records, and reads and writes them as DataFrames."""

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from broker.client import ClientError, KafkaError
from broker.spark.cluster_offsets import ClusterOffsets
from broker.spark.jobs.results import JobFailed
from broker.spark.offsets import offsets_to_json
from broker.spark.options import IllegalOption, ReadOptions
from broker.spark.ranges import OffsetRange


class Cluster:
    """`options` are those of `format("kraft")`, such as `kafka.bootstrap.servers` and `failOnDataLoss`."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._options = dict(options)

    @property
    def fails_on_data_loss(self) -> bool:
        return self._options.get("failOnDataLoss", "true").lower() != "false"

    def ranges(self, topics: Iterable[str]) -> list[OffsetRange]:
        """All records of the topics as they are now, one range for each partition, sorted.

        Raises JobFailed if a topic is missing, or if the cluster cannot be asked.
        """
        wanted = sorted(set(topics))
        try:
            options = ReadOptions.of({**self._options, "subscribe": ",".join(wanted)}, is_streaming=False)
            with ClusterOffsets(options) as cluster:
                partitions = cluster.partitions()
                starts, ends = cluster.earliest(partitions), cluster.latest(partitions)
        except (IllegalOption, KafkaError, ClientError) as error:
            raise JobFailed(f"The offsets of {', '.join(wanted)} cannot be read: {error}") from error
        return [
            OffsetRange(each.topic, topic_id, each.partition, starts[each], max(starts[each], ends[each]))
            for each, topic_id in sorted(partitions.items())
        ]

    def read(
        self, ranges: Iterable[OffsetRange], *, has_headers: bool = False, has_producers: bool = False
    ) -> DataFrame:
        """The records of the ranges, in the schema of the connector, with headers and producers if they are wanted."""
        each_range = list(ranges)
        partitions: dict[str, list[int]] = {}
        for each in each_range:
            partitions.setdefault(each.topic, []).append(each.partition)
        options = {
            **self._options,
            "assign": json.dumps(partitions),
            "startingOffsets": offsets_to_json({each.topic_partition: each.start for each in each_range}),
            "endingOffsets": offsets_to_json({each.topic_partition: each.end for each in each_range}),
            "includeHeaders": str(has_headers).lower(),
            "includeProducer": str(has_producers).lower(),
        }
        return self._spark.read.format("kraft").options(**options).load()

    def append(self, frame: DataFrame, topic: str) -> None:
        """Write records to a topic: the columns are those of the sink, `value` and the optional others."""
        frame.write.format("kraft").options(**self._options).option("topic", topic).mode("append").save()
