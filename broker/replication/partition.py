"""One partition's replica on this broker: its role, its log, and the high watermark.

Three offsets of a leader's log matter: the log end offset; the flushed end, up to which the records are as durable here
as the topic's config requires, which is the log end unless `flush.messages` is set; and the high watermark, up to which
the records are committed, that is, on all in-sync replicas.
"""

from collections.abc import Mapping
from typing import Final

from broker.config.effective import TopicConfig
from broker.replication.commit_state import CommitState
from broker.replication.in_sync_replicas import InSyncReplicas
from broker.replication.partition_context import PartitionContext, PartitionTasks
from broker.replication.topic_traffic import PartitionTraffic
from broker.replication.waiters import Acknowledgements, PartitionWaiters
from broker.storage.log import AppendInfo, Log
from broker.storage.log_config import MAX_LONG
from broker.wire.errors import ErrorCode, KafkaError
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import PartitionImage

# A request without a leader epoch is not checked against the partition's (KIP-320).
NO_EPOCH: Final = -1
NO_LEADER: Final = -1
_UNKNOWN_OFFSET: Final = -1


class Partition(PartitionTraffic):
    """See the module's docstring.

    `log` is None while its log directory is offline, and after the replica was removed from this broker.
    `directory_id` is the id of the log directory, once it was looked up. `in_sync` is set while this replica leads a
    partition that has followers; `directories` maps each broker with a replica to its log directory.
    `agrees_with_leader` says of a follower that the leader of its epoch found no divergence in its log, so that its
    high watermark is right.

    `answers_at_once` says that the commit of a turn also commits the records, so that a producer need not wait: the
    partition has one replica, and no flush is required. `flushes_appends` says that flush.messages is set.
    """

    __slots__ = (
        "agrees_with_leader",
        "answers_at_once",
        "commit_state",
        "context",
        "directories",
        "directory_id",
        "epoch_start_offset",
        "flushed_end",
        "flushes_appends",
        "in_sync",
        "index",
        "is_under_min_isr",
        "leader_epoch",
        "leader_id",
        "local_id",
        "log",
        "min_insync_replicas",
        "partition_epoch",
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
        self.topic, self.topic_id, self.index, self.log = topic, topic_id, index, log
        self.directory_id: bytes | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = self.partition_epoch = -1
        self.epoch_start_offset = _UNKNOWN_OFFSET
        self.agrees_with_leader = False
        self.in_sync: InSyncReplicas | None = None
        self.directories: Mapping[int, bytes] = {}
        self.min_insync_replicas = 1
        self.is_under_min_isr = False
        self.flushes_appends = False
        self.flushed_end = 0
        self.answers_at_once = False
        self.throttled_as_leader = self.throttled_as_follower = False
        self.commit_state = CommitState(log, high_watermark)
        self.waiters: PartitionWaiters[Partition] = PartitionWaiters()
        if log is not None:
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
    def leads(self) -> bool:
        """Whether this replica leads the partition and has a log."""
        return self.leader_id == self.local_id and self.log is not None

    @property
    def source(self) -> int | None:
        """The broker to fetch from; None if this replica leads, has no log, or the partition has no leader."""
        if self.log is None or self.leader_id in (self.local_id, NO_LEADER):
            return None
        return self.leader_id

    def apply_image(self, image: PartitionImage) -> None:
        """Take the role that the metadata assigns; does nothing if the partition is at a later partition epoch.

        The controller's response to an ISR proposal may arrive before the metadata record of the same partition epoch.
        """
        if image.partition_epoch < self.partition_epoch:
            return
        is_new_epoch = image.leader_epoch > self.leader_epoch
        is_new_state = image.partition_epoch > self.partition_epoch
        if is_new_epoch and image.leader != NO_LEADER:
            self.agrees_with_leader = image.leader == self.local_id
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        if image.leader == self.local_id and self.log is not None:
            if is_new_epoch:
                self._start_leader_epoch(self.log, image)
            self._become_leader(image, is_new_state=is_new_state)
        elif is_new_epoch:
            self._become_follower(image)
        self._state_changed()
        if is_new_epoch:
            self.waiters.notify_readers(self)

    def _start_leader_epoch(self, log: Log, image: PartitionImage) -> None:
        """Record that the epoch starts at the log's end, even if no record is written in it (KIP-101)."""
        self.in_sync = None
        self.epoch_start_offset = log.log_end_offset
        log.epochs.assign(self.leader_epoch, self.epoch_start_offset)
        self.flushed_end = self.high_watermark
        if len(image.replicas) > 1:
            self.trace("partition_led", start_offset=self.epoch_start_offset, high_watermark=self.high_watermark)

    def _become_leader(self, image: PartitionImage, *, is_new_state: bool) -> None:
        if image.replicas == (self.local_id,):
            self.in_sync = None
            return
        if self.in_sync is None:
            self.in_sync = InSyncReplicas(
                self.local_id,
                epoch_start_offset=self.epoch_start_offset,
                lag_max_ms=self.context.lag_max_ms,
                may_join=self._may_join,
            )
            is_new_state = True
        self.in_sync.assign(image.replicas)
        self.directories = dict(zip(image.replicas, image.directories, strict=False))
        if is_new_state:  # otherwise the ISR is known, and a proposal may have been made since
            self.set_isr(self.in_sync, image.isr, image.partition_epoch)

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        directory = self.directories.get(broker_id, UNASSIGNED_DIRECTORY)
        return self.context.may_join(broker_id, broker_epoch, directory)

    def set_isr(self, in_sync: InSyncReplicas, isr: tuple[int, ...], partition_epoch: int) -> None:
        """Apply the ISR that the controller has committed for the epoch in which this replica leads."""
        if isr != in_sync.isr:
            self.context.isr_changes.add(in_sync.isr, isr)
            self.trace("isr_changed", isr=isr, partition_epoch=partition_epoch)
        self.partition_epoch = partition_epoch
        in_sync.commit(isr, self.context.now_ms())
        self._state_changed()

    def _become_follower(self, image: PartitionImage) -> None:
        self.in_sync = None
        self.epoch_start_offset = _UNKNOWN_OFFSET
        if len(image.replicas) > 1:
            self.trace("partition_followed", leader=self.leader_id)
        self.waiters.refuse_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def configure(self, config: TopicConfig) -> None:
        """Apply the topic's config."""
        self.min_insync_replicas = config.min_insync_replicas
        self.throttled_as_leader = self.index in config.throttled_as_leader
        self.throttled_as_follower = self.index in config.throttled_as_follower
        flushes_appends = config.log.flush_messages != MAX_LONG
        if self.log is not None:
            if flushes_appends and not self.flushes_appends:
                self.flushed_end = self.high_watermark
            if self.log.config is not config.log:
                self.log.config = config.log
        self.flushes_appends = flushes_appends
        self._state_changed()

    def close(self, code: ErrorCode) -> None:
        """Stop using the log, which has failed or is no longer on this broker; waiting requests fail with `code`."""
        self.add_to_topic(self.log)
        self.log = None
        self.in_sync = None
        self._update_append_rules()
        self.waiters.refuse_producers(code)
        self.waiters.notify_readers(self)
        self.waiters.notify_deletions(self)

    def _update_append_rules(self) -> None:
        """Derive from role, ISR and config what each append checks."""
        in_sync = self.in_sync
        self.answers_at_once = self.leads and in_sync is None and not self.flushes_appends
        self.is_under_min_isr = in_sync is not None and len(in_sync.isr) < self._min_isr(in_sync)

    def _min_isr(self, in_sync: InSyncReplicas) -> int:
        """min.insync.replicas, but no more than there are replicas, as in Kafka."""
        return min(self.min_insync_replicas, len(in_sync.followers) + 1)

    def _state_changed(self) -> None:
        """Role, ISR or config may have changed: re-check everything that depends on them."""
        self._update_append_rules()
        self.waiters.notify_deletions(self)
        if self.leads:
            self.log_appended()
            if not self.flushes_appends and self.log is not None:
                self.waiters.for_flush.complete_up_to(self.log.readable_end_offset)

    # Access to the log

    def readable_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, whether this replica leads or not, if the client's leader epoch is the same (KIP-320).

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"{self} is at leader epoch {self.leader_epoch}")
        if self.log is None:
            raise self._offline()
        return self.log

    def committed_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log for a consumer, which may also read from a follower, up to the follower's high watermark (KIP-392).

        A follower that was offline may hold records that an unclean election has removed from the partition. It
        refuses consumers until its leader has confirmed its log; clients then go back to the leader.
        Raises KafkaError: OFFSET_NOT_AVAILABLE, and as `readable_log` does.
        """
        log = self.readable_log(current_leader_epoch)
        if not self.agrees_with_leader and self.leader_id != self.local_id:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE, f"{self} has not compared its log with broker {self.leader_id} yet"
            )
        return log

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, if this replica leads and the client's leader epoch is the same (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        log = self.readable_log(current_leader_epoch)
        if self.leader_id != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is led by broker {self.leader_id}")
        return log

    def follower_log(self, leader_epoch: int) -> Log:
        """The log, if this replica still follows under this epoch.

        Raises KafkaError otherwise: a response of the leader of another epoch must not be applied.
        """
        if self.log is None:
            raise self._offline()
        if leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{self} is at leader epoch {self.leader_epoch}")
        if self.source is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} does not follow a leader")
        return self.log

    def _offline(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self} is offline")

    # Appending

    def append(self, batches: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """Append as the leader. The batches are staged, and written when the turn commits.

        Raises KafkaError as `leader_log` and `Log.append` do, and NOT_ENOUGH_REPLICAS for acks=all while fewer than
        `min.insync.replicas` are in sync.
        """
        log = self.log
        if log is None or self.leader_id != self.local_id:
            log = self.leader_log()  # raises the error
        if acks == -1 and self.is_under_min_isr:
            raise self.not_enough_replicas()
        return log.append(batches, self.leader_epoch, now_ms)

    def not_enough_replicas(self) -> KafkaError:
        """The error for acks=all while `is_under_min_isr`."""
        in_sync = self.in_sync
        assert in_sync is not None, "a single replica is never under min ISR"
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {len(in_sync.isr)} in-sync replicas, min.insync.replicas is {self._min_isr(in_sync)}",
        )

    def awaits(self, acks: int, end_offset: int) -> Acknowledgements | None:
        """Where a producer waits until its records, which end at `end_offset`, are safe; None if the commit suffices.

        With acks=all they are safe once committed, otherwise once flushed if flush.messages is set.
        """
        if self.answers_at_once:
            return None
        if acks == -1:
            return None if end_offset <= self.commit_state.high_watermark else self.waiters.for_commit
        return self.waiters.for_flush if self.flushes_appends and end_offset > self.flushed_end else None

    def log_appended(self) -> None:
        """The log may have grown: notify followers, request a flush if required, and advance the high watermark."""
        if self.waiters.for_log_end:
            self.waiters.notify_log_end(self)
        if self.flushes_appends and self.log is not None and self.flushed_end < self.log.readable_end_offset:
            self.tasks.flush(self)
        self.advance_high_watermark()

    def flushed(self, end_offset: int) -> None:
        """The records below `end_offset` are as durable as the config requires."""
        self.flushed_end = max(self.flushed_end, end_offset)
        self.waiters.for_flush.complete_up_to(self.flushed_end)
        self.advance_high_watermark()

    # The high watermark

    @property
    def high_watermark(self) -> int:
        return self.commit_state.high_watermark

    @property
    def knows_committed(self) -> bool:
        """Whether the high watermark has reached the start of this leader's epoch, and so that of its predecessor."""
        return self.high_watermark >= self.epoch_start_offset

    def advance_high_watermark(self) -> None:
        """As the leader, move the high watermark to the offset that every in-sync replica has reached."""
        log = self.log
        if log is None or self.leader_id != self.local_id:
            return
        end = log.readable_end_offset if self.answers_at_once else self._committable_end(log.readable_end_offset)
        if end > self.commit_state.high_watermark:
            self.move_high_watermark(log, end)

    def _committable_end(self, end_offset: int) -> int:
        """The offset up to which a log that ends at `end_offset` may be committed.

        While fewer than `min.insync.replicas` are in sync the high watermark stays: those few might be lost (KIP-966).
        """
        if self.is_under_min_isr:
            return self.commit_state.high_watermark
        end = min(end_offset, self.flushed_end) if self.flushes_appends else end_offset
        if self.in_sync is not None:
            end = min(end, self.in_sync.high_watermark(end_offset, self.context.now_ms()))
        return end

    def move_high_watermark(self, log: Log, offset: int) -> None:
        """Set the high watermark; nothing else moves it. It only moves back on a follower that has truncated its log.

        Notifies the producers' states (last stable offset), producers that wait for acks=all, and the fetches of
        consumers and followers that wait for it.
        """
        has_moved = offset != self.commit_state.high_watermark
        self.commit_state.move(log, offset)
        waiters = self.waiters
        if has_moved and waiters.for_commit.waiting:
            waiters.for_commit.complete_up_to(offset, self._commit_code())
        if has_moved and waiters.for_high_watermark:
            waiters.notify_high_watermark(self)

    def _commit_code(self) -> ErrorCode:
        """NONE, or the error for records that were committed by fewer than `min.insync.replicas`."""
        in_sync = self.in_sync
        if in_sync is None or len(in_sync.maximal) >= self._min_isr(in_sync):
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _log_start_moved(self) -> None:
        """Records were deleted from the front of the log: readers of them get an error now."""
        self.waiters.notify_readers(self)
