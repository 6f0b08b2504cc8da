"""The role of a follower: it applies its leader's responses, that is, appends, takes over offsets, and truncates."""

from broker.replication.partition import Partition
from broker.replication.partition_role import PartitionRole
from broker.replication.transitions import Role
from broker.storage.log import Log
from broker.wire.errors import ErrorCode, KafkaError


class FollowerRole(PartitionRole):
    """The role of a replica that fetches from the leader of one leader epoch."""

    __slots__ = ()

    kind = Role.FOLLOWER
    partition: Partition
    log: Log

    def __init__(self, partition: Partition, log: Log, leader_id: int) -> None:
        super().__init__(partition, log, leader_id, agrees_with_leader=False)

    @property
    def source(self) -> int:
        return self.leader_id

    def append_fetched(
        self, records: memoryview, *, leader_high_watermark: int, leader_log_start_offset: int, now_ms: int
    ) -> None:
        """Append the fetched records, which may be empty, and take over the leader's high watermark and log start.

        Raises KafkaError as `Log.append_as_follower` does, OSError.
        """
        partition, log = self.partition, self.log
        if records:
            segments = log.segments
            before = segments.records_written, segments.bytes_written
            log.append_as_follower(records, partition.leader_epoch, now_ms)
            partition.replication_bytes_in += segments.bytes_written - before[1]
            segments.records_written, segments.bytes_written = before  # these count what clients append
        self.agrees_with_leader = True
        committed = min(leader_high_watermark, log.readable_end_offset)
        if committed > partition.high_watermark:
            partition.move_high_watermark(log, committed)
        log.advance_log_start_offset(min(leader_log_start_offset, partition.high_watermark))

    def truncate(self, diverging_epoch: int, end_offset: int) -> int:
        """Drop the records that the leader does not have; returns the new log end offset.

        In the leader's log `diverging_epoch` ends at `end_offset`. The follower keeps its log up to there, or up to the
        end of that epoch in its own log if that comes first (KIP-595). Raises OSError.
        """
        partition, log = self.partition, self.log
        offset = _truncation_offset(log, diverging_epoch, end_offset)
        self._trace_truncation(offset)
        log.truncate_to(offset)
        # Needed even if the offset stays: the producers' states were reloaded and do not know what is replicated.
        partition.move_high_watermark(log, min(partition.high_watermark, log.log_end_offset))
        return log.log_end_offset

    def restart_at(self, offset: int) -> None:
        """Drop all records, and start again at `offset`, where the leader's log begins. Raises OSError."""
        if offset < self.log.log_end_offset:
            self._trace_truncation(offset)
        self.log.truncate_fully_and_start_at(offset)
        self.partition.move_high_watermark(self.log, offset)

    def _trace_truncation(self, offset: int) -> None:
        """Trace a truncation; one below the high watermark only follows an unclean election."""
        partition = self.partition
        if offset < partition.high_watermark:
            partition.trace("committed_truncated", offset=offset, high_watermark=partition.high_watermark)
        else:
            partition.trace("partition_truncated", offset=offset)


def _truncation_offset(log: Log, diverging_epoch: int, end_offset: int) -> int:
    own_epoch, own_end_offset = log.epochs.end_offset_for(diverging_epoch, log.log_end_offset)
    return end_offset if own_epoch < 0 else min(end_offset, own_end_offset)


def following(partition: Partition, leader_epoch: int) -> FollowerRole:
    """The role of a partition that still follows under `leader_epoch`, the epoch under which the leader was asked.

    Raises KafkaError otherwise, and without a log: a response of the leader of another epoch must not be applied.
    """
    role = partition.role
    role.readable_log()
    if leader_epoch != partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{partition} is at leader epoch {partition.leader_epoch}")
    if not isinstance(role, FollowerRole):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} does not follow a leader")
    return role
