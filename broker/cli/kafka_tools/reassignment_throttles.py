"""The throttles of a reassignment as Kafka's tool sets and removes them: without regard to others."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.cli.kafka_tools.java_order import hash_map_order
from broker.cli.move_throttles import RATES, REPLICAS, moves_of, throttled_replicas
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

_OF_BROKERS: Final = (*RATES, "replica.alter.log.dirs.io.max.bytes.per.second")


async def clear_throttles(admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Removes the throttles of all brokers and of the partitions' topics. Raises KafkaError, ClientError."""
    brokers = {node.id for node in (await admin.describe_cluster()).nodes}
    brokers.update(broker for each in replicas.values() for broker in each)
    listed = ",".join(map(str, sorted(brokers)))
    print_text(f"Clearing broker-level throttles on broker{_plural(brokers)} {listed}")
    await _delete(admin, ConfigResourceType.BROKER, map(str, sorted(brokers)), _OF_BROKERS)
    topics = hash_map_order(each.topic for each in replicas)
    print_text(f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    await _delete(admin, ConfigResourceType.TOPIC, topics, REPLICAS)


async def set_throttle(
    admin: Admin,
    rate: int,
    current: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, PartitionReassignment],
) -> None:
    """Limits the replication of what moves, also of what moves already, to a rate in bytes per second."""
    adding = {each: [*found.replicas] for each, found in moving.items()}
    moves = moves_of(current, {**adding, **wanted}, moving)
    changes: dict[ConfigResource, list[ConfigChange]] = {}
    for (topic, name), entries in throttled_replicas(moves).items():
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        changes.setdefault(resource, []).append(ConfigChange(name, ",".join(entries)))
    brokers = {broker for sources, targets in moves.values() for broker in sources | targets}
    for broker in sorted(brokers):
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
        changes[resource] = [ConfigChange(name, str(rate)) for name in RATES]
    (await admin.incremental_alter_configs(changes)).raise_first()
    print_text(f"The inter-broker throttle limit was set to {rate} B/s")


async def _delete(admin: Admin, kind: ConfigResourceType, names: Iterable[str], keys: Sequence[str]) -> None:
    changes = {
        ConfigResource(kind, name): [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys] for name in names
    }
    (await admin.incremental_alter_configs(changes)).raise_first()


def _plural(items: Iterable[object]) -> str:
    return "" if len(list(items)) == 1 else "s"
