"""Changes of a broker's partitions when the broker becomes active or inactive.

The cost depends on the number of the broker's replicas, not on the size of the cluster.
"""

from collections.abc import Callable, Iterable

from metadata.configuration import ConfigSchema
from metadata.controller.partition_change_builder import PartitionChangeBuilder, acceptable_leaders, election_rules
from metadata.image import MetadataImage, PartitionImage
from metadata.records import NO_LEADER, PartitionChangeRecord

Chosen = Callable[[PartitionImage], bool]


class BrokerPartitions:
    """Returns the partition changes that follow from a change of a broker."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def broker_inactive(self, image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
        """Remove the broker as a leader and from ISRs. Its logs are intact, so it can become eligible (KIP-966)."""
        return self._change(image, broker_id, lambda partition: broker_id in partition.isr, gone=broker_id)

    def broker_shut_down_uncleanly(self, image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
        """Remove the broker as a leader, from ISRs and from ELRs, as it may have lost records (KIP-966).

        Without ELR, the last member of an ISR stays in it.
        """

        def chosen(partition: PartitionImage) -> bool:
            return broker_id in partition.isr or broker_id in partition.eligible_leader_replicas

        return self._change(image, broker_id, chosen, gone=broker_id, unclean_shutdown=broker_id)

    def broker_unfenced(self, image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
        """Elect the broker in partitions without a leader in which it is in sync or eligible."""
        return self._change(image, broker_id, lambda partition: partition.leader == NO_LEADER, came=broker_id)

    def directories_offline(
        self, image: MetadataImage, broker_id: int, directories: Iterable[bytes]
    ) -> list[PartitionChangeRecord]:
        """Remove the broker as a leader and from ISRs of partitions in log directories that failed (KIP-858)."""
        lost = tuple(directories)

        def chosen(partition: PartitionImage) -> bool:
            if broker_id not in partition.isr or not partition.directories:
                return False
            return partition.directories[partition.replicas.index(broker_id)] in lost

        return self._change(image, broker_id, chosen, gone=broker_id)

    def _change(
        self,
        image: MetadataImage,
        broker_id: int,
        chosen: Chosen,
        *,
        gone: int | None = None,
        came: int | None = None,
        unclean_shutdown: int | None = None,
    ) -> list[PartitionChangeRecord]:
        changes: list[PartitionChangeRecord] = []
        for topic, partition_ids in image.topics.replicas_on(broker_id):
            rules = election_rules(image, topic, self._schema)
            for partition_id in partition_ids:
                partition = topic.partitions[partition_id]
                if not chosen(partition):
                    continue
                change = PartitionChangeBuilder(
                    topic_id=topic.topic_id,
                    partition_id=partition_id,
                    partition=partition,
                    rules=rules,
                    may_lead=acceptable_leaders(image, partition, gone=gone, came=came),
                    isr=tuple(replica for replica in partition.isr if replica != gone),
                    unclean_shutdown=unclean_shutdown,
                ).build()
                if change is not None:
                    changes.append(change)
        return changes


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    return any(
        topic.partitions[partition_id].leader == broker_id
        for topic, partition_ids in image.topics.replicas_on(broker_id)
        for partition_id in partition_ids
    )
