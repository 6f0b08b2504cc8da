"""Conversions of subscriptions and assignments of classic consumers, which their clients encode, to partitions by topic
id.
"""

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
    """Converts partitions by topic name; leaves out topics that do not exist."""
    sets: dict[bytes, frozenset[int]] = {}
    for each in named:
        topic = image.topics.by_name.get(each.topic)
        if topic is not None and each.partitions:
            sets[topic.topic_id] = of_topic(sets, topic.topic_id) | frozenset(each.partitions)
    return sets


def as_assignment(sets: PartitionSets, metadata: Buffer, image: MetadataImage) -> bytes:
    """Encodes an assignment in the version of the member's own `metadata`."""
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
    """The version of the metadata; 0 if it cannot be read. JoinGroup refuses such metadata, but another broker may have
    written it.
    """
    try:
        return protocol_version(metadata)
    except WireError:
        return 0
