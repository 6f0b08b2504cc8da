"""Gives a partition its role, as the metadata says."""

from broker.replication.follower_role import FollowerRole
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.replication.partition_role import NO_LEADER, LeaderlessRole
from broker.replication.transitions import Cause
from broker.storage.log import Log
from broker.wire.errors import ErrorCode
from metadata.image import PartitionImage


def apply_image(partition: Partition, image: PartitionImage) -> None:
    """Take the role that the metadata assigns; does nothing if the partition is at a later partition epoch.

    The controller's response to an ISR proposal may arrive before the metadata record of the same partition epoch.
    A replica that is offline takes over the epochs only.
    """
    if image.partition_epoch < partition.partition_epoch:
        return
    is_new_epoch = image.leader_epoch > partition.leader_epoch
    is_new_state = is_new_epoch or image.partition_epoch > partition.partition_epoch
    partition.leader_epoch = image.leader_epoch
    partition.partition_epoch = image.partition_epoch
    log = partition.log
    if is_new_epoch and log is not None:
        _begin_leader_epoch(partition, log, image)
    role = partition.role
    if isinstance(role, LeaderRole):
        role.assign(image, is_new_state=is_new_state)
    partition.state_changed()
    if is_new_epoch:
        partition.waiters.notify_readers(partition)


def _begin_leader_epoch(partition: Partition, log: Log, image: PartitionImage) -> None:
    has_others = len(image.replicas) > 1
    if image.leader == partition.local_id:
        # The epoch starts at the log's end, even if no record is written in it (KIP-101).
        start_offset = log.log_end_offset
        log.epochs.assign(partition.leader_epoch, start_offset)
        partition.become(Cause.ELECTED, LeaderRole(partition, log, start_offset))
        if has_others:
            partition.trace("partition_led", start_offset=start_offset, high_watermark=partition.high_watermark)
        return
    if image.leader == NO_LEADER:
        agreed = partition.role.agrees_with_leader
        partition.become(Cause.NONE_ELECTED, LeaderlessRole(partition, log, agrees_with_leader=agreed))
    else:
        partition.become(Cause.OTHER_ELECTED, FollowerRole(partition, log, image.leader))
    if has_others:
        partition.trace("partition_followed", leader=image.leader)
    partition.waiters.refuse_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
