"""One partition's replica on this broker: its role, its log, and the high watermark.

Three offsets of a leader's log matter: the log end offset; the flushed end, up to which the records are as durable here
as the topic's config requires, which is the log end unless `flush.messages` is set; and the high watermark, up to which
the records are committed, that is, on all in-sync replicas.
"""

from typing import Final

from broker.config.effective import TopicConfig
from broker.replication.commit_state import CommitState
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.partition_role import LeaderlessRole, OfflineRole, PartitionRole
from broker.replication.topic_traffic import PartitionTraffic
from broker.replication.transitions import Cause, next_role
from broker.replication.waiters import PartitionWaiters
from broker.storage.log import Log
from broker.storage.log_config import MAX_LONG
from broker.wire.errors import ErrorCode, KafkaError
from kraft.core.transitions import IllegalTransition

# A request without a leader epoch is not checked against the partition's (KIP-320).
NO_EPOCH: Final = -1


class Partition(PartitionTraffic):
    """See the module's docstring. `role` has what depends on the role; `broker.replication.role_changes` changes it.

    `directory_id` is the id of the log directory, once it was looked up. `flushes_appends` says that flush.messages is
    set.
    """

    __slots__ = (
        "commit_state",
        "context",
        "directory_id",
        "flushes_appends",
        "index",
        "leader_epoch",
        "local_id",
        "min_insync_replicas",
        "partition_epoch",
        "role",
        "tasks",
        "throttled_as_follower",
        "throttled_as_leader",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log | None,
        context: PartitionContext,
        tasks: "PartitionTasks[Partition]",
        high_watermark: int = 0,
    ) -> None:
        super().__init__()
        self.context, self.tasks, self.local_id = context, tasks, context.local_id
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.directory_id: bytes | None = None
        self.leader_epoch = self.partition_epoch = -1
        self.min_insync_replicas = 1
        self.flushes_appends = False
        self.throttled_as_leader = self.throttled_as_follower = False
        self.commit_state = CommitState(log, high_watermark)
        self.waiters: PartitionWaiters[Partition] = PartitionWaiters()
        self.role: PartitionRole
        if log is None:
            self.role = OfflineRole(self)
        else:
            self.role = LeaderlessRole(self, log, agrees_with_leader=False)
            log.on_start_moved = self._log_start_moved

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def trace(self, kind: str, **fields: object) -> None:
        """Trace an event of this partition."""
        self.context.trace(
            kind,
            node=self.local_id,
            topic_id=self.topic_id.hex(),
            partition=self.index,
            leader_epoch=self.leader_epoch,
            **fields,
        )

    # The role

    @property
    def log(self) -> Log | None:
        """The log; None while its log directory is offline, and after the replica was removed from this broker."""
        return self.role.log

    @property
    def leads(self) -> bool:
        """Whether this replica leads the partition."""
        return self.role.leads

    @property
    def leader_id(self) -> int:
        """The broker that leads; -1 if there is none, or if this replica is offline."""
        return self.role.leader_id

    @property
    def source(self) -> int | None:
        """The broker to fetch from; None unless this replica follows a leader."""
        return self.role.source

    def become(self, cause: Cause, role: PartitionRole) -> None:
        """Change the role. Raises IllegalTransition, and changes nothing, if the table lacks the transition."""
        if next_role(self.role.kind, cause) is not role.kind:
            raise IllegalTransition(f"{cause.name} does not lead to {role.kind.name}")
        self.role = role

    def configure(self, config: TopicConfig) -> None:
        """Apply the topic's config."""
        self.min_insync_replicas = config.min_insync_replicas
        self.throttled_as_leader = self.index in config.throttled_as_leader
        self.throttled_as_follower = self.index in config.throttled_as_follower
        flushes_appends = config.log.flush_messages != MAX_LONG
        if flushes_appends and not self.flushes_appends:
            self.role.begin_flushing()
        self.flushes_appends = flushes_appends
        log = self.role.log
        if log is not None and log.config is not config.log:
            log.configure(config.log)
        self.state_changed()

    def replace_log(self, log: Log) -> None:
        """Continue with a log of the same records in another directory. Nothing may be staged in the former log."""
        former = self.role.log
        assert former is not None, "a replica without a log is not moved"
        assert former.log_end_offset == log.log_end_offset, "the logs have the same records"
        self.add_to_topic(former)
        former.on_start_moved = None
        log.on_start_moved = self._log_start_moved
        self.role.log = log

    def close(self, code: ErrorCode) -> None:
        """Stop using the log, which has failed or is no longer on this broker; waiting requests fail with `code`."""
        self.add_to_topic(self.role.log)
        self.become(Cause.CLOSED, OfflineRole(self))
        self.waiters.refuse_producers(code)
        self.waiters.notify_readers(self)
        self.waiters.notify_deletions(self)

    def state_changed(self) -> None:
        """Role, ISR or config may have changed: re-check everything that depends on them."""
        self.waiters.notify_deletions(self)
        self.role.state_changed()

    # Access to the log

    def readable_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, whether this replica leads or not, if the client's leader epoch is the same (KIP-320).

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        self._check_epoch(current_leader_epoch)
        return self.role.readable_log()

    def committed_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log for a consumer, which may also read from a follower, up to the follower's high watermark (KIP-392).

        A follower that was offline may hold records that an unclean election has removed from the partition. It
        refuses consumers until its leader has confirmed its log; clients then go back to the leader.
        Raises KafkaError: OFFSET_NOT_AVAILABLE, and as `readable_log` does.
        """
        self._check_epoch(current_leader_epoch)
        return self.role.committed_log()

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, if this replica leads and the client's leader epoch is the same (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        self._check_epoch(current_leader_epoch)
        return self.role.leader_log()

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"{self} is at leader epoch {self.leader_epoch}")

    def log_appended(self) -> None:
        """The log may have grown: notify followers, request a flush if required, and advance the high watermark."""
        if self.waiters.for_log_end:
            self.waiters.notify_log_end(self)
        role = self.role
        if self.flushes_appends:
            role.request_flush()
        role.advance_high_watermark()

    def _log_start_moved(self) -> None:
        """Records were deleted from the front of the log: readers of them get an error now."""
        self.waiters.notify_readers(self)

    # The high watermark

    @property
    def high_watermark(self) -> int:
        return self.commit_state.high_watermark

    def move_high_watermark(self, log: Log, offset: int) -> None:
        """Set the high watermark; nothing else moves it. It only moves back on a follower that has truncated its log.

        Notifies the producers' states (last stable offset), producers that wait for acks=all, and the fetches of
        consumers and followers that wait for it. No producer gets NOT_ENOUGH_REPLICAS_AFTER_APPEND: while the ISR is
        below min.insync.replicas, a leader does not move the high watermark (KIP-966).
        """
        has_moved = offset != self.commit_state.high_watermark
        self.commit_state.move(log, offset)
        waiters = self.waiters
        if has_moved and waiters.for_commit.waiting:
            waiters.for_commit.complete_up_to(offset)
        if has_moved and waiters.for_high_watermark:
            waiters.notify_high_watermark(self)
