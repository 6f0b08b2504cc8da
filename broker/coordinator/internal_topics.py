"""The internal topics in which coordinators keep their state: names, configs and numbers of partitions."""

from typing import Final

from broker.config import KafkaConfig
from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from metadata.configuration import BrokerConfigs, TopicConfigs

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


def internal_topic(name: str, config: KafkaConfig) -> CreatableTopic | None:
    """Returns how an internal topic is created when a client first looks for its coordinator; None for other topics."""
    if name == CONSUMER_OFFSETS:
        partitions, replicas = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        configs = _offsets_configs(config)
    elif name == TRANSACTION_STATE:
        partitions = config.transaction_state_log_num_partitions
        replicas = config.transaction_state_log_replication_factor
        configs = _transaction_configs(config)
    elif name == SHARE_GROUP_STATE:
        partitions = config.share_coordinator_state_topic_num_partitions
        replicas = config.share_coordinator_state_topic_replication_factor
        configs = _share_configs(config)
    else:
        return None
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def _offsets_configs(config: KafkaConfig) -> dict[str, str]:
    return {
        TopicConfigs.cleanup_policy.name: "compact",
        TopicConfigs.segment_bytes.name: str(config.offsets_topic_segment_bytes),
        TopicConfigs.compression_type.name: "producer",
    }


def _transaction_configs(config: KafkaConfig) -> dict[str, str]:
    return {
        TopicConfigs.cleanup_policy.name: "compact",
        TopicConfigs.compression_type.name: "uncompressed",
        TopicConfigs.min_insync_replicas.name: str(config.transaction_state_log_min_isr),
        TopicConfigs.segment_bytes.name: str(config.transaction_state_log_segment_bytes),
        TopicConfigs.unclean_leader_election_enable.name: "false",
    }


def _share_configs(config: KafkaConfig) -> dict[str, str]:
    """Compaction would lose updates, which do not replace earlier ones of their key. Instead, the coordinator deletes
    the records that it no longer needs. Unlike in Kafka, no size bounds the topic either: `log.retention.bytes` of the
    brokers would delete states.
    """
    return {
        TopicConfigs.cleanup_policy.name: "delete",
        TopicConfigs.compression_type.name: "producer",
        TopicConfigs.min_insync_replicas.name: str(config.share_coordinator_state_topic_min_isr),
        TopicConfigs.retention_bytes.name: "-1",
        TopicConfigs.retention_ms.name: "-1",
        TopicConfigs.segment_bytes.name: str(config.share_coordinator_state_topic_segment_bytes),
    }


def replication_key(name: str) -> str:
    """The config that says how many replicas an internal topic gets."""
    topics = {
        CONSUMER_OFFSETS: BrokerConfigs.offsets_topic_replication_factor,
        TRANSACTION_STATE: BrokerConfigs.transaction_state_log_replication_factor,
        SHARE_GROUP_STATE: BrokerConfigs.share_coordinator_state_topic_replication_factor,
    }
    return topics[name].name
