"""Answers that a real broker could have sent, though not now: metadata of earlier, and fewer records than there are.

A broker that lags sends metadata of an earlier time. A broker sends no records though there are some when a throttle
or an expired wait makes it, and cuts the last batch where `max_bytes` or `partition.fetch.bytes` ends. It never
cuts the first batch of a partition: from version 3 of Fetch on, Kafka sends no records then. Other damage, such as
changed bytes, no broker sends over an intact connection.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from broker.net.reply import FileRange
from broker.wire.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode
from jepsen.testing.faults.fault import TORN
from jepsen.testing.faults.shapes import Subject
from metadata.image import ClusterImage, MetadataImage, PartitionImage

Matches = Callable[[Subject], bool]

# The base offset and the length of a batch; the length counts the bytes after it.
_BATCH_HEAD: Final = Struct(">qi")
_NO_LEADER: Final = -1
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def stale_metadata(
    response: MetadataResponse, image: MetadataImage, listener: str, matches: Matches, *, has_all_topics: bool
) -> None:
    """Put the topics as of `image` in place of those that match. A broker of that time is listed, too."""
    topics = {topic.name or topic.topic_id: topic for topic in response.topics}
    for key, topic in topics.items():
        if topic.name and matches(Subject(topic=topic.name)):
            topics[key] = _topic_at(image, topic)
    if has_all_topics:
        topics = {key: topic for key, topic in topics.items() if topic.error_code != _UNKNOWN}
        for name, _ in image.topics.by_name.items():
            if name not in topics and matches(Subject(topic=name)):
                topics[name] = _topic_at(image, MetadataResponseTopic(name=name))
    response.topics = list(topics.values())
    listed = {broker.node_id for broker in response.brokers}
    for broker in image.cluster.brokers.values():
        if broker.broker_id not in listed and not broker.fenced and listener in broker.end_points:
            endpoint = broker.end_points[listener]
            response.brokers.append(
                MetadataResponseBroker(
                    node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )


def _topic_at(image: MetadataImage, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    """The topic as it was then; unknown if it was not there."""
    then = image.topics.by_name.get(topic.name or "")
    if then is None:
        return MetadataResponseTopic(error_code=_UNKNOWN, name=topic.name, partitions=[])
    return MetadataResponseTopic(
        name=then.name,
        topic_id=then.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=topic.topic_authorized_operations,
        partitions=[_partition_at(image.cluster, index, each) for index, each in then.partitions.items()],
    )


def _partition_at(cluster: ClusterImage, index: int, partition: PartitionImage) -> MetadataResponsePartition:
    leader = cluster.brokers.get(partition.leader)
    is_led = leader is not None and not leader.fenced
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if is_led else _NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[each for each in partition.replicas if _is_offline(cluster, each)],
    )


def _is_offline(cluster: ClusterImage, broker_id: int) -> bool:
    broker = cluster.brokers.get(broker_id)
    return broker is None or broker.fenced


def with_less(records: Any, choice: str) -> bytes:
    """The records without their end: none of them, or the batches with the last one torn."""
    if choice != TORN:
        return b""
    data = records.file.read(records.position, records.size) if isinstance(records, FileRange) else bytes(records)
    ends = batch_ends(data)
    if len(ends) < 2:
        return b""
    last = ends[-2]
    return data[: last + (ends[-1] - last) // 2]


def batch_ends(data: bytes) -> list[int]:
    """The positions where the whole batches in `data` end."""
    ends = []
    position = 0
    while position + _BATCH_HEAD.size <= len(data):
        position += _BATCH_HEAD.size + _BATCH_HEAD.unpack_from(data, position)[1]
        if position > len(data):
            break
        ends.append(position)
    return ends
