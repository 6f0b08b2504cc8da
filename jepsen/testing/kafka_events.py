"""Events that happen to applications in any cluster of Kafka, caused by requests that an administrator can send.

Each function returns once the event has happened. Brokers other than the one that was asked learn of it a moment later.
"""

from collections.abc import Mapping
from typing import Final

import trio

from broker.client import (
    Admin,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
)

# The pause between two looks at the metadata.
_LOOK_S: Final = 0.02
_STABLE: Final = "Stable"


class EventRefused(Exception):
    """The event cannot happen now; the message tells the reason."""


async def move_leader(admin: Admin, partition: TopicPartition, to: int | None = None) -> int:
    """Make an in-sync replica the leader of a partition: `to`, or the next one. Returns the new leader.

    The partition keeps its replicas; the new leader becomes the preferred one. A coordinator moves with the leader of
    its partition of the internal topic. Raises EventRefused.
    """
    found = await _partition(admin, partition)
    candidates = [replica for replica in found.isr if replica != found.leader and to in (None, replica)]
    if not candidates:
        if to is not None and to == found.leader:
            return to
        wanted = "no other replica" if to is None else f"no replica on node {to}"
        raise EventRefused(f"{partition.topic}-{partition.partition} has {wanted} in its ISR {list(found.isr)}")
    leader = candidates[0]
    order = [leader, *(replica for replica in found.replicas if replica != leader)]
    (await admin.alter_partition_reassignments({partition: order})).raise_first()
    while (await _partition(admin, partition)).leader != leader:
        try:
            (await admin.elect_leaders([partition])).raise_first()
        except KafkaError as error:
            if error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                raise
        await trio.sleep(_LOOK_S)
    return leader


async def start_rebalance(admin: Admin, group: str, config: Mapping[str, str]) -> None:
    """Rebalance a group twice, by a consumer that joins and leaves it. `config` is that of clients of the cluster.

    The consumer subscribes to the topics that are assigned, by the group's own protocol, and commits nothing. Raises
    EventRefused if the group has no members.
    """
    described = (await admin.describe_groups([group])).value(group)
    topics = sorted({each.topic for member in described.members for each in member.assignment})
    if not topics:
        raise EventRefused(f"group {group} is {described.state}, and no member has a partition")
    settings: dict[str, str] = {**config, "group.id": group, "group.protocol": described.type}
    settings |= {"enable.auto.commit": "false", "auto.offset.reset": "latest"}
    if described.type == "classic":
        settings["partition.assignment.strategy"] = described.assignor
    async with Consumer(config=settings) as consumer:
        consumer.subscribe(topics)
        while not await _is_stable_with(admin, group, consumer.group_metadata().member_id):
            await consumer.fetch(timeout_s=_LOOK_S)


async def _is_stable_with(admin: Admin, group: str, member_id: str) -> bool:
    """True once the group has assigned its partitions with this member."""
    described = (await admin.describe_groups([group])).value(group)
    return described.state == _STABLE and member_id in {member.member_id for member in described.members}


async def fence_producer(admin: Admin, transactional_id: str) -> int:
    """Give a transactional id a new epoch: its producer is fenced, an open transaction aborted. Returns the epoch."""
    return (await admin.fence_producers([transactional_id])).value(transactional_id).epoch


async def expire_offsets(admin: Admin, group: str, topic: str | None = None) -> list[TopicPartition]:
    """Delete the committed offsets of a group, of one topic or of all, as if their retention time were over.

    Returns the partitions. Raises EventRefused if members subscribe to a topic: its offsets do not expire.
    """
    committed = (await admin.list_group_offsets({group: None})).value(group)
    partitions = [each for each in committed if topic in (None, each.topic)]
    if partitions:
        try:
            (await admin.delete_group_offsets(group, partitions)).raise_first()
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
                raise EventRefused(f"members of group {group} subscribe to the topic: {error}") from error
            raise
    return partitions


async def recreate_topic(admin: Admin, topic: str) -> bytes:
    """Delete a topic, and create it again with the same partitions, replicas and configs. Returns the new topic id."""
    before = await _topic(admin, topic)
    resource = topic_resource(topic)
    entries = (await admin.describe_configs([resource])).value(resource)
    configs = {name: entry.value for name, entry in entries.items() if entry.source == ConfigSource.TOPIC}
    assignments = {each.partition: each.replicas for each in before.partitions}
    (await admin.delete_topics([topic])).raise_first()
    created = await admin.create_topics([NewTopic(topic, assignments=assignments, configs=configs)])
    return created.value(topic).topic_id


async def advance_log_start(admin: Admin, partition: TopicPartition, offset: int) -> int:
    """Delete the records before an offset, or all committed ones for -1, as retention does. Returns the new start."""
    return (await admin.delete_records({partition: offset})).value(partition)


def topic_resource(topic: str) -> ConfigResource:
    """The topic as the owner of its configs."""
    return ConfigResource(ConfigResourceType.TOPIC, topic)


async def _topic(admin: Admin, topic: str) -> TopicDescription:
    return (await admin.describe_topics([topic])).value(topic)


async def _partition(admin: Admin, partition: TopicPartition) -> PartitionDescription:
    found = await _topic(admin, partition.topic)
    for each in found.partitions:
        if each.partition == partition.partition:
            return each
    raise EventRefused(f"topic {partition.topic} has {len(found.partitions)} partitions")
