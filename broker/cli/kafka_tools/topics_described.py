"""The lines of kafka-topics --describe."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from broker.cli.kafka_tools.java_order import described_topics_order, hash_map_order
from broker.cli.kafka_tools.options import Options
from broker.cli.printing import print_text
from broker.client.admin import (
    Admin,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    PartitionDescription,
    PartitionReassignment,
    TopicDescription,
)
from broker.client.errors import UnsupportedByBroker
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID, encode_uuid

_PARTITIONS_PER_RESPONSE: Final = 2000
_MIN_ISR: Final = "min.insync.replicas"


@attrs.frozen
class _Partition:
    """A partition, with the conditions that the reports filter by."""

    description: PartitionDescription
    reassignment: PartitionReassignment | None
    min_isr: int

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without those that a current reassignment adds."""
        changing = self.reassignment
        if changing is not None and {*changing.adding_replicas, *changing.removing_replicas} & {
            *self.description.replicas
        }:
            return len(changing.replicas) - len(changing.adding_replicas)
        return len(self.description.replicas)

    def is_reported(self, options: Options, live_brokers: Sequence[int]) -> bool:
        """True if one of the reports that the options ask for shows the partition."""
        leader, in_sync = self.description.leader, len(self.description.isr)
        return (
            ("under-replicated-partitions" in options and in_sync < self.replication_factor)
            or ("unavailable-partitions" in options and leader not in live_brokers)
            or ("under-min-isr-partitions" in options and (leader is None or in_sync < self.min_isr))
            or ("at-min-isr-partitions" in options and in_sync == self.min_isr)
        )

    def line(self, topic: str) -> str:
        described = self.description
        cells = [
            f"Topic: {topic}",
            f"Partition: {described.partition}",
            f"Leader: {'none' if described.leader is None else described.leader}",
            f"Replicas: {_ids(described.replicas)}",
            f"Isr: {_ids(described.isr)}",
        ]
        if self.reassignment is not None:
            cells.append(f"Adding Replicas: {_ids(self.reassignment.adding_replicas)}")
            cells.append(f"Removing Replicas: {_ids(self.reassignment.removing_replicas)}")
        cells.append(f"Elr: {_ids(described.eligible_leader_replicas)}")
        cells.append(f"LastKnownElr: {_ids(described.last_known_elr)}")
        return "".join(f"\t{cell}" for cell in cells)


async def describe_topics(admin: Admin, options: Options, topics: Sequence[str] | Sequence[bytes]) -> None:
    """Prints topics, and their partitions that match the options. Raises KafkaError, ClientError."""
    limit = options.value("partition-size-limit-per-response") or _PARTITIONS_PER_RESPONSE
    found = (await admin.describe_topics(topics, partition_limit=limit)).raise_first().values()
    by_name = {topic.name: topic for topic in found}
    described = [by_name[name] for name in described_topics_order(by_name)]
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in described]
    configs = (await admin.describe_configs(resources)).raise_first()
    live_brokers = [node.id for node in (await admin.describe_cluster()).nodes]
    partitions = [TopicPartition(topic.name, each.partition) for topic in described for each in topic.partitions]
    reassignments = await _reassignments(admin, partitions) if partitions else {}
    for topic, of_topic in zip(described, configs.values(), strict=True):
        _print_topic(options, topic, of_topic, reassignments, live_brokers)


async def _reassignments(
    admin: Admin, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, PartitionReassignment]:
    try:
        return await admin.list_partition_reassignments(partitions)
    except UnsupportedByBroker:
        return {}
    except KafkaError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def _print_topic(
    options: Options,
    topic: TopicDescription,
    configs: Mapping[str, ConfigEntry],
    reassignments: Mapping[TopicPartition, PartitionReassignment],
    live_brokers: Sequence[int],
) -> None:
    is_report = any(f"{report}-partitions" in options for report in ("under-replicated", "unavailable"))
    is_report = is_report or any(f"{report}-isr-partitions" in options for report in ("under-min", "at-min"))
    min_isr = int(configs[_MIN_ISR].value or 1) if _MIN_ISR in configs else 1
    partitions = [
        _Partition(each, reassignments.get(TopicPartition(topic.name, each.partition)), min_isr)
        for each in topic.partitions
    ]
    overridden = [f"{name}={configs[name].value}" for name in hash_map_order(configs) if not configs[name].is_default]
    has_overrides_only = "topics-with-overrides" in options
    if not is_report and partitions and (overridden or not has_overrides_only):
        print_text(_topic_line(topic, partitions, overridden))
    for partition in partitions if not has_overrides_only else ():
        if not is_report or partition.is_reported(options, live_brokers):
            print_text(partition.line(topic.name))


def _topic_line(topic: TopicDescription, partitions: Sequence[_Partition], overridden: Sequence[str]) -> str:
    cells = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_UUID:
        cells.append(f"TopicId: {encode_uuid(topic.topic_id)}")
    cells.append(f"PartitionCount: {len(partitions)}")
    cells.append(f"ReplicationFactor: {partitions[0].replication_factor}")
    cells.append(f"Configs: {','.join(overridden)}")
    return "\t".join(cells)


def _ids(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
