"""The internal topics that coordinators keep their state in: their names, how they are created, how many partitions."""

from typing import Final

from broker.config import KafkaConfig
from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from metadata.image import MetadataImage

CONSUMER_OFFSETS: Final = "__consumer_offsets"


def internal_topic(name: str, config: KafkaConfig) -> CreatableTopic | None:
    """How an internal topic is created when it is first asked for; None for a topic that is none, or not served yet."""
    if name != CONSUMER_OFFSETS:
        return None
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
        "compression.type": "producer",
    }
    return CreatableTopic(
        name=name,
        num_partitions=config.get_int("offsets.topic.num.partitions"),
        replication_factor=config.get_int("offsets.topic.replication.factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def group_partition_count(image: MetadataImage, config: KafkaConfig) -> int:
    """The partitions of __consumer_offsets, or those that it will have."""
    topic = image.topics.by_name.get(CONSUMER_OFFSETS)
    return config.get_int("offsets.topic.num.partitions") if topic is None else len(topic.partitions)
