"""Damage that was found in the logs of this broker's replicas while they are in use."""

import attrs

from broker.replication.partition import Partition
from broker.storage.damage import Damage, DamagedRanges


@attrs.define(eq=False)
class DamagedReplicas:
    """The replicas of this broker whose logs are known to be damaged."""

    partitions: dict[Partition, None] = attrs.field(factory=dict)

    def add(self, partition: Partition, damage: Damage) -> None:
        """Record damage, so that it is not read as data any more. Does nothing if it is known."""
        log = partition.log
        if log is None or damage.end_offset <= log.log_start_offset:
            return
        if log.segments.damaged is None:
            log.segments.damaged = DamagedRanges()
        if log.segments.damaged.add(damage):
            self.partitions[partition] = None
            partition.trace(
                "partition_damaged",
                topic=partition.topic,
                leader=partition.leader_id,
                first_offset=damage.first_offset,
                end_offset=damage.end_offset,
                path=damage.file,
                reason=damage.cause,
            )
