"""The internal topics in which coordinators keep their state: names, configs and numbers of partitions."""

from typing import Final

from broker.config import KafkaConfig
from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from metadata.configuration import TopicConfigs
from metadata.image import MetadataImage

CONSUMER_OFFSETS: Final = "__consumer_offsets"


def internal_topic(name: str, config: KafkaConfig) -> CreatableTopic | None:
    """Returns how an internal topic is created when a client first looks for its coordinator; None for other topics."""
    if name != CONSUMER_OFFSETS:
        return None
    configs = {
        TopicConfigs.cleanup_policy.name: "compact",
        TopicConfigs.segment_bytes.name: str(config.offsets_topic_segment_bytes),
        TopicConfigs.compression_type.name: "producer",
    }
    return CreatableTopic(
        name=name,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def group_partition_count(image: MetadataImage, config: KafkaConfig) -> int:
    """The number of partitions of `__consumer_offsets`; before the topic exists, the number it will have."""
    topic = image.topics.by_name.get(CONSUMER_OFFSETS)
    return config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
