"""The two configs that elections rest on: min.insync.replicas and unclean.leader.election.enable.

Whether a replica that left the ISR still has everything depends on the min.insync.replicas that its leader went by. So
leader and controller must not differ about it: while eligible leader replicas are in use (KIP-966), it is set for the
whole cluster and not for single brokers, and a change of it settles in the same batch who is eligible from then on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from metadata.configuration import ConfigSchema, ResourceType
from metadata.controller.partition_change_builder import (
    ElectionRules,
    PartitionChangeBuilder,
    acceptable_leaders,
    election_rules,
    elr_in_use,
)
from metadata.errors import InvalidConfig
from metadata.image import ConfigResource, MetadataDelta, MetadataImage, PartitionImage, TopicImage
from metadata.records import NO_LEADER, ConfigRecord, PartitionChangeRecord

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"


def agreed_min_insync_replicas(image: MetadataImage, schema: ConfigSchema) -> list[ConfigRecord]:
    """What has to be set before eligible leader replicas are in use; nothing where it is."""
    records = []
    if MIN_INSYNC_REPLICAS not in image.configs.all_brokers():
        default = schema.topic_value(MIN_INSYNC_REPLICAS, {}, {})
        records.append(_broker_config("", str(default)))
    for resource, configs in image.configs.resources.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs:
            records.append(_broker_config(resource.name, None))
    return records


def check_min_insync_replicas(image: MetadataImage, resource: ConfigResource, name: str, value: str | None) -> None:
    """Raises InvalidConfig for a change that would have leaders and controller differ."""
    if name != MIN_INSYNC_REPLICAS or resource.type != ResourceType.BROKER or not elr_in_use(image):
        return
    if resource.name:
        raise InvalidConfig(f"Broker-level {name} cannot be altered while ELR is enabled.")
    if value is None:
        raise InvalidConfig(f"Cluster-level {name} cannot be removed while ELR is enabled.")


def settle(image: MetadataImage, schema: ConfigSchema, records: Sequence[ConfigRecord]) -> list[PartitionChangeRecord]:
    """What follows from `records` for partitions: who is eligible no more, and who may lead now at last.

    With a lower min.insync.replicas the leader acknowledges what those that left the ISR do not have. A change for the
    whole cluster looks at all partitions, some ms for 10,000.
    """
    changed = [record for record in records if record.name in (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION)]
    if not changed:
        return []
    delta = MetadataDelta(image)
    delta.replay(changed)
    after = delta.apply(image.offset)
    return _settled(
        after,
        schema,
        _concerned(after, changed),
        lambda partition: partition.leader == NO_LEADER or bool(partition.eligible_leader_replicas),
    )


def overdue_elections(image: MetadataImage, schema: ConfigSchema) -> list[PartitionChangeRecord]:
    """Leaders for partitions that have none, where this controller's own defaults allow what its predecessor's did not.

    All other reasons to elect somebody are acted upon when they arise. Kafka looks for such partitions every 5 minutes.
    """
    return _settled(image, schema, image.topics.by_id.values(), lambda partition: partition.leader == NO_LEADER)


def _settled(
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
    if any(record.resource_type == ResourceType.BROKER for record in records):
        return image.topics.by_id.values()
    named = (image.topics.by_name.get(name) for name in dict.fromkeys(record.resource_name for record in records))
    return [topic for topic in named if topic is not None]


def _broker_config(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)
