"""Repeated lookups of topics and offsets for a streaming query: cheaper than `ClusterOffsets`, which it uses."""

from collections.abc import Iterable
from typing import Final

from broker.client import KafkaError, SyncAdmin, SyncConsumer, TopicPartition
from broker.client.consumer.config import ConsumerConfig
from broker.spark.cluster_offsets import ClusterOffsets
from broker.spark.offsets import Offsets
from broker.spark.options import Assign, ReadOptions, Subscribe, client_settings
from broker.spark.streaming.planning import Topics

# A call that takes longer is given up, and the topics are looked up again: they may have been deleted.
_TIMEOUT_MS: Final = 10_000


class StreamCluster(ClusterOffsets):
    """Asks for topics and offsets. To be closed."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        settings = client_settings(options.client_config, ConsumerConfig)
        settings.setdefault("default.api.timeout.ms", _TIMEOUT_MS)
        self._consumer = SyncConsumer(str(settings.pop("bootstrap.servers")), config=settings)

    @property
    def admin(self) -> SyncAdmin:
        return self._admin

    def close(self) -> None:
        self._consumer.close()
        super().close()

    def topics(self) -> Topics:
        """The topics and partitions that the options choose, as far as they exist at the moment."""
        return self._retried(self._topics)

    def _topics(self) -> Topics:
        chosen = self._options.topics
        if isinstance(chosen, Subscribe):
            names: Iterable[str] = chosen.topics
        elif isinstance(chosen, Assign):
            names = {each.topic for each in chosen.partitions}
        else:
            names = [topic.name for topic in self._admin.list_topics() if chosen.matches(topic.name)]
        found = self._admin.describe_topics(sorted(names))
        for error in found.failed.values():
            if not isinstance(error, KafkaError) or error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise error
        described = {topic.name: topic for topic in found.succeeded.values()}
        partitions = [
            TopicPartition(name, each.partition) for name, topic in described.items() for each in topic.partitions
        ]
        if isinstance(chosen, Assign):
            partitions = [each for each in partitions if each in chosen.partitions]
        return Topics({name: topic.topic_id for name, topic in described.items()}, tuple(sorted(partitions)))

    def latest_now(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets after the last records that the query may read: one request to each leader, and none about
        metadata. Raises KafkaError, TimedOut."""
        return self._consumer.end_offsets(partitions)

    def bytes_per_offset(self, earliest: Offsets, latest: Offsets) -> dict[TopicPartition, float]:
        """The average bytes per offset in the logs of the leaders, as compressed there."""
        described = self._retried(lambda: self._admin.describe_log_dirs(partitions=latest).raise_first())
        sizes: dict[TopicPartition, int] = {}
        for directories in described.values():
            for directory in directories.values():
                for partition, replica in directory.replicas.items():
                    # Replicas that are catching up are smaller.
                    sizes[partition] = max(sizes.get(partition, 0), replica.size_bytes)
        return {
            each: sizes[each] / (latest[each] - earliest[each])
            for each in latest
            if each in sizes and each in earliest and latest[each] > earliest[each]
        }
