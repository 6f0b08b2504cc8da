"""What becomes of a broker's partitions when it comes or goes: one decision for all of them.

Costs what the broker has, not what there is.
"""

from collections.abc import Callable, Iterable

from metadata.configuration import ConfigSchema
from metadata.controller.partition_change_builder import PartitionChangeBuilder, acceptable_leaders, election_rules
from metadata.image import MetadataImage, PartitionImage
from metadata.records import NO_LEADER, PartitionChangeRecord

Chosen = Callable[[PartitionImage], bool]


class BrokerPartitions:
    """The changes of partitions that follow from what happens to a broker."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def broker_leaves(self, image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
        """It leads nothing any more and is in no ISR. Its logs are intact, so it may become eligible (KIP-966)."""
        return self._change(image, broker_id, lambda partition: broker_id in partition.isr, gone=broker_id)

    def broker_lost_records(self, image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
        """As before, but it may lack records it once had, and so is not eligible either (KIP-966).

        Without ELR nothing tells such a broker from others, and the last member of an ISR remains in it.
        """

        def chosen(partition: PartitionImage) -> bool:
            return broker_id in partition.isr or broker_id in partition.eligible_leader_replicas

        return self._change(image, broker_id, chosen, gone=broker_id, unclean_shutdown=broker_id)

    def broker_comes(self, image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
        """It may lead; partitions that nobody leads get it as their leader, where it is in sync or eligible."""
        return self._change(image, broker_id, lambda partition: partition.leader == NO_LEADER, came=broker_id)

    def directories_lost(
        self, image: MetadataImage, broker_id: int, directories: Iterable[bytes]
    ) -> list[PartitionChangeRecord]:
        """Log directories of the broker failed: what it has in them counts as gone with them (KIP-858)."""
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
