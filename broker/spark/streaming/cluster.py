"""Repeated lookups of topics and offsets for a streaming query: cheaper than `ClusterOffsets`, which it uses."""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from broker.client import ClientError, KafkaError, SyncAdmin, SyncConsumer, TopicPartition, UnsupportedByBroker
from broker.client.consumer.config import ConsumerConfig
from broker.spark.cluster_offsets import ClusterOffsets
from broker.spark.offsets import Offsets
from broker.spark.options import Assign, ReadOptions, Subscribe, client_settings
from broker.spark.streaming.planning import Topics
from broker.spark.streaming.stream_offsets import StreamOffsets

# A call that takes longer is given up, and the topics are looked up again: they may have been deleted.
_TIMEOUT_MS: Final = 10_000
# How long brokers may disagree on whether a topic exists, and the pause between two looks at that.
_AGREEMENT_TIMEOUT_S: Final = 5.0
_AGREEMENT_PAUSE_S: Final = 0.2


class BrokersDisagree(ClientError):
    """Some brokers know a topic, and others know another one of its name, or none."""


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

    def topics(self, position: StreamOffsets) -> Topics:
        """The topics and partitions that the options choose, as far as they exist at the moment.

        A topic of the position counts as deleted, or as created again, only if no broker knows it any more: one that
        lags behind may report what was there before. Raises BrokersDisagree if one of them does so for some seconds.
        """
        deadline = time.monotonic() + _AGREEMENT_TIMEOUT_S
        while True:
            topics = self._retried(partial(self._topics, position))
            if not (disputed := self._retried(partial(self._disputed, topics, position))):
                return topics
            if time.monotonic() > deadline:
                raise BrokersDisagree(
                    f"the brokers do not agree on whether {', '.join(disputed)} was deleted: some know it with the id "
                    "that the query has read, and some do not. Check that all brokers reach the controller, and start "
                    "the query again"
                )
            time.sleep(_AGREEMENT_PAUSE_S)

    def _disputed(self, topics: Topics, position: StreamOffsets) -> list[str]:
        """The topics of the position that seem to be gone or to be created again, although some broker knows them."""
        doubtful = {topic_id: name for name, topic_id in position.topic_ids.items() if topics.ids.get(name) != topic_id}
        if not doubtful:
            return []
        try:
            found = self._admin.describe_topics(list(doubtful))
        except UnsupportedByBroker:
            return []  # brokers from before Kafka 2.8 do not describe topics by their ids
        return sorted(doubtful[topic_id] for topic_id in found.succeeded if isinstance(topic_id, bytes))

    def _topics(self, position: StreamOffsets) -> Topics:
        chosen = self._options.topics
        if isinstance(chosen, Subscribe):
            names: Iterable[str] = chosen.topics
        elif isinstance(chosen, Assign):
            names = {each.topic for each in chosen.partitions}
        else:
            listed = [topic.name for topic in self._admin.list_topics()]
            names = {name for name in [*listed, *position.topic_ids] if chosen.matches(name)}
        found = self._admin.describe_topics(sorted(names))
        for error in found.failed.values():
            if not isinstance(error, KafkaError) or error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise error
        described = {topic.name: topic for topic in found.succeeded.values()}
        ids = {name: topic.topic_id for name, topic in described.items()}
        partitions = {
            TopicPartition(name, each.partition) for name, topic in described.items() for each in topic.partitions
        }
        # A topic never loses partitions: a broker that reports fewer lags behind.
        partitions.update(each for each in position.offsets if ids.get(each.topic, b"") == position.id_of(each))
        if isinstance(chosen, Assign):
            partitions.intersection_update(chosen.partitions)
        return Topics(ids, tuple(sorted(partitions)))

    def latest_now(self, partitions: Sequence[TopicPartition], *, are_leaders_doubted: bool = False) -> Offsets:
        """The offsets after the last records that the query may read: one request to each leader, and none about
        metadata, unless the known leaders are in doubt. Raises KafkaError, TimedOut."""
        if are_leaders_doubted:
            for topic in sorted({each.topic for each in partitions}):
                self._consumer.partitions_for(topic)
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
