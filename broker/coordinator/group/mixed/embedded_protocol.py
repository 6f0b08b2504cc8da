"""What members of the classic protocol say and are told in bytes of their own, as partitions of topics by their ids."""

from collections.abc import Iterable

from broker.coordinator.group.partition_sets import PartitionSets, of_topic
from broker.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedPartitions,
    encode_assignment,
    protocol_version,
)
from broker.wire.errors import WireError
from broker.wire.schema import Buffer
from metadata.image import MetadataImage


def as_sets(named: Iterable[OwnedPartitions], image: MetadataImage) -> PartitionSets:
    """These partitions; without those of topics that are not there."""
    sets: dict[bytes, frozenset[int]] = {}
    for each in named:
        topic = image.topics.by_name.get(each.topic)
        if topic is not None and each.partitions:
            sets[topic.topic_id] = of_topic(sets, topic.topic_id) | frozenset(each.partitions)
    return sets


def as_assignment(sets: PartitionSets, metadata: Buffer, image: MetadataImage) -> bytes:
    """What a member is given, in the version in which it wrote its own metadata."""
    topics = [(image.topics.by_id.get(topic_id), partitions) for topic_id, partitions in sets.items()]
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            OwnedPartitions(topic=topic.name, partitions=sorted(partitions))
            for topic, partitions in topics
            if topic is not None
        ]
    )
    return encode_assignment(assignment, _version(metadata))


def _version(metadata: Buffer) -> int:
    """The first one, where nobody can tell: joining members were refused then, but others may have written records."""
    try:
        return protocol_version(metadata)
    except WireError:
        return 0
