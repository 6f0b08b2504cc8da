"""The hash by which a group's coordinator notices that the topics which the group is subscribed to have changed."""

from collections.abc import Iterable
from hashlib import blake2b

from metadata.image import MetadataImage, TopicImage


def topics_hash(names: Iterable[str], image: MetadataImage) -> int:
    """A hash that changes if a topic is created or deleted, gets partitions, or has replicas in other racks.

    It has 64 bits, and is 0 without topics, as Kafka's. The values differ from Kafka's. If a coordinator finds a hash
    that it would not have written, it increases the group's epoch, which does no harm.
    """
    distinct = sorted(frozenset(names))
    topics = [topic for name in distinct if (topic := image.topics.by_name.get(name)) is not None]
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(topic.topic_id + b"%d:%d;" % (len(topic.partitions), len(topic.name)))
        digest.update(topic.name.encode())
        digest.update(_racks(topic, image).encode())
    return int.from_bytes(digest.digest(), signed=True)


def _racks(topic: TopicImage, image: MetadataImage) -> str:
    """The racks of each partition's replicas; empty if no broker has a rack."""
    racks = {broker_id: broker.rack for broker_id, broker in image.cluster.brokers.items() if broker.rack is not None}
    if not racks:
        return ""
    return ";".join(
        ",".join(sorted(racks[replica] for replica in partition.replicas if replica in racks))
        for partition in topic.partitions.values()
    )
