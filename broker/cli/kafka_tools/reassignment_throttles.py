"""The throttles of a reassignment: how fast replicas move, and which replicas that is about."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from broker.cli.kafka_tools.java_order import hash_map_order
from broker.cli.printing import print_text
from broker.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    PartitionReassignment,
)
from broker.client.types import TopicPartition

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_OF_BROKERS: Final = (*_RATES, "replica.alter.log.dirs.io.max.bytes.per.second")
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"

# The brokers that a partition moves from, and those that it moves to.
_Move: TypeAlias = tuple[set[int], set[int]]


async def clear_throttles(admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Removes the throttles of all brokers and of the partitions' topics. Raises KafkaError, ClientError."""
    brokers = {node.id for node in (await admin.describe_cluster()).nodes}
    brokers.update(broker for each in replicas.values() for broker in each)
    listed = ",".join(map(str, sorted(brokers)))
    print_text(f"Clearing broker-level throttles on broker{_plural(brokers)} {listed}")
    await _delete(admin, ConfigResourceType.BROKER, map(str, sorted(brokers)), _OF_BROKERS)
    topics = hash_map_order(each.topic for each in replicas)
    print_text(f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    await _delete(admin, ConfigResourceType.TOPIC, topics, (_LEADERS, _FOLLOWERS))


async def set_throttle(
    admin: Admin,
    rate: int,
    current: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, PartitionReassignment],
) -> None:
    """Limits the replication of what moves, also of what moves already, to a rate in bytes per second."""
    moves: dict[TopicPartition, _Move] = {
        each: (set(found.replicas) - set(found.adding_replicas), set(found.adding_replicas))
        for each, found in moving.items()
    }
    for each, replicas in wanted.items():
        sources = moves[each][0] if each in moves else set(current[each])
        moves[each] = (sources, set(replicas) - sources)
    changes: dict[ConfigResource, list[ConfigChange]] = {}
    for topic in dict.fromkeys(each.topic for each in moves):
        changes[ConfigResource(ConfigResourceType.TOPIC, topic)] = [
            ConfigChange(name, _throttled(topic, moves, side)) for side, name in enumerate((_LEADERS, _FOLLOWERS))
        ]
    brokers = {broker for sources, targets in moves.values() for broker in sources | targets}
    for broker in sorted(brokers):
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
        changes[resource] = [ConfigChange(name, str(rate)) for name in _RATES]
    (await admin.incremental_alter_configs(changes)).raise_first()
    print_text(f"The inter-broker throttle limit was set to {rate} B/s")


def _throttled(topic: str, moves: Mapping[TopicPartition, _Move], side: int) -> str:
    """`partition:broker` of the replicas on one side of the moves."""
    pairs = {
        f"{each.partition}:{broker}" for each, move in moves.items() if each.topic == topic for broker in move[side]
    }
    return ",".join(sorted(pairs))


async def _delete(admin: Admin, kind: ConfigResourceType, names: Iterable[str], keys: Sequence[str]) -> None:
    changes = {
        ConfigResource(kind, name): [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys] for name in names
    }
    (await admin.incremental_alter_configs(changes)).raise_first()


def _plural(items: Iterable[object]) -> str:
    return "" if len(list(items)) == 1 else "s"
