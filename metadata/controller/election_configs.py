"""The configs that elections depend on: min.insync.replicas and unclean.leader.election.enable.

A replica that left the ISR is eligible only if its leader used the same min.insync.replicas as the controller. While
eligible leader replicas are in use (KIP-966), min.insync.replicas is therefore set for the whole cluster, never for
single brokers. A change of it updates the eligible replicas in the same batch.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from metadata.configuration import ConfigSchema, TopicConfigs
from metadata.controller.partition_change_builder import (
    ElectionRules,
    PartitionChangeBuilder,
    acceptable_leaders,
    election_rules,
    elr_in_use,
)
from metadata.image import ConfigResource, MetadataDelta, MetadataImage, PartitionImage, TopicImage
from metadata.protocol import ConfigResourceType, ErrorCode, KafkaError
from metadata.records import NO_LEADER, ConfigRecord, PartitionChangeRecord

MIN_INSYNC_REPLICAS: Final = TopicConfigs.min_insync_replicas.name
UNCLEAN_LEADER_ELECTION: Final = TopicConfigs.unclean_leader_election_enable.name


def min_insync_replicas_records(image: MetadataImage, schema: ConfigSchema) -> list[ConfigRecord]:
    """Set min.insync.replicas for the whole cluster, as eligible leader replicas require. Empty if it is so already."""
    records = []
    if MIN_INSYNC_REPLICAS not in image.configs.all_brokers():
        default = schema.topic_value(TopicConfigs.min_insync_replicas, {}, {})
        records.append(_broker_config("", str(default)))
    for resource, configs in image.configs.resources.items():
        if resource.type == ConfigResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs:
            records.append(_broker_config(resource.name, None))
    return records


def check_min_insync_replicas(image: MetadataImage, resource: ConfigResource, name: str, value: str | None) -> None:
    """Raises KafkaError INVALID_CONFIG for a change after which leaders and controller would use different values."""
    if name != MIN_INSYNC_REPLICAS or resource.type != ConfigResourceType.BROKER or not elr_in_use(image):
        return
    if resource.name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Broker-level {name} cannot be altered while ELR is enabled.")
    if value is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Cluster-level {name} cannot be removed while ELR is enabled.")


def elections_by_configs(
    image: MetadataImage, schema: ConfigSchema, records: Sequence[ConfigRecord]
) -> list[PartitionChangeRecord]:
    """The partition changes that follow from changed configs.

    With a lower min.insync.replicas, the leader acknowledges records that eligible replicas lack, so these are removed.
    With unclean elections enabled, partitions without a leader get one. A change for the whole cluster visits all
    partitions, which takes some ms for 10,000.
    """
    changed = [record for record in records if record.name in (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION)]
    if not changed:
        return []
    delta = MetadataDelta(image)
    delta.replay(changed)
    after = delta.apply(image.offset)
    return _changes(
        after,
        schema,
        _concerned(after, changed),
        lambda partition: partition.leader == NO_LEADER or bool(partition.eligible_leader_replicas),
    )


def overdue_elections(image: MetadataImage, schema: ConfigSchema) -> list[PartitionChangeRecord]:
    """Elect leaders for partitions without one when this controller becomes active.

    Its own defaults may allow elections that its predecessor's did not. All other elections happen with the change that
    allows them. Kafka looks for such partitions every 5 minutes.
    """
    return _changes(image, schema, image.topics.by_id.values(), lambda partition: partition.leader == NO_LEADER)


def _changes(
    image: MetadataImage,
    schema: ConfigSchema,
    topics: Iterable[TopicImage],
    chosen: Callable[[PartitionImage], bool],
) -> list[PartitionChangeRecord]:
    changes = []
    for topic in topics:
        rules: ElectionRules | None = None
        for partition_id, partition in topic.partitions.items():
            if not chosen(partition):
                continue
            rules = rules or election_rules(image, topic, schema)
            change = PartitionChangeBuilder(
                topic_id=topic.topic_id,
                partition_id=partition_id,
                partition=partition,
                rules=rules,
                may_lead=acceptable_leaders(image, partition),
                isr=partition.isr,
            ).build()
            if change is not None:
                changes.append(change)
    return changes


def _concerned(image: MetadataImage, records: Iterable[ConfigRecord]) -> Iterable[TopicImage]:
    if any(record.resource_type == ConfigResourceType.BROKER for record in records):
        return image.topics.by_id.values()
    named = (image.topics.by_name.get(name) for name in dict.fromkeys(record.resource_name for record in records))
    return [topic for topic in named if topic is not None]


def _broker_config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ConfigResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value
    )
