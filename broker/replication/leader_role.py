"""The role of a leader: it appends, finds diverging logs, tracks its followers, and proposes changes of the ISR.

The rules for diverging logs are those of KIP-101, 279 and 595, those for the ISR of KIP-497, 704, 841 and 903.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from broker.replication.in_sync_replicas import Follower, InSyncReplicas, Proposal
from broker.replication.partition import NO_EPOCH, Partition
from broker.replication.partition_role import PartitionRole
from broker.replication.transitions import Role
from broker.replication.waiters import Acknowledgements
from broker.storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from broker.storage.log import AppendInfo, Log
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import PartitionImage
from metadata.records import LEADER_RECOVERING

# After these errors the proposal stays pending: the controller has a newer state of the partition, which will arrive by
# the metadata log. Until then an earlier attempt at the proposal may have been committed, so it must still count.
_AWAIT_METADATA: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


@lazy_attrs.frozen
class DivergingEpoch:
    """The leader's latest epoch that is not after the reader's last one, and the offset at which it ends."""

    epoch: int
    end_offset: int


def diverging_epoch(log: Log, last_fetched_epoch: int, fetch_offset: int) -> DivergingEpoch | None:
    """Compare the leader's log with a log that ends at `fetch_offset` with a record of `last_fetched_epoch`.

    Returns None if the logs agree. Raises KafkaError OFFSET_OUT_OF_RANGE if the leader does not know that epoch.
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end_offset = log.epochs.end_offset_for(last_fetched_epoch, log.readable_end_offset)
    if epoch == UNDEFINED_EPOCH or end_offset == UNDEFINED_EPOCH_OFFSET:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the leader epoch {last_fetched_epoch} is unknown")
    if fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the log starts at {log.log_start_offset}")
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return DivergingEpoch(epoch, end_offset)
    return None


class LeaderRole(PartitionRole):
    """The role of a leader in one leader epoch, with or without followers.

    The log ended at `start_offset` when the epoch began. `directories` maps each broker with a replica to its log
    directory. `flushed_end` is the end of the flushed records, if flush.messages is set.
    """

    __slots__ = ("answers_at_once", "directories", "flushed_end", "in_sync", "is_under_min_isr")

    kind = Role.LEADER
    leads = True
    partition: Partition
    log: Log

    def __init__(self, partition: Partition, log: Log, start_offset: int) -> None:
        super().__init__(partition, log, partition.local_id, agrees_with_leader=True)
        self.answers_at_once = self.is_under_min_isr = False
        self.directories: Mapping[int, bytes] = {}
        self.flushed_end = partition.high_watermark
        self.in_sync = InSyncReplicas(
            partition.local_id,
            epoch_start_offset=start_offset,
            lag_max_ms=partition.context.lag_max_ms,
            may_join=self._may_join,
        )

    # The in-sync replicas

    def assign(self, image: PartitionImage, *, is_new_state: bool) -> None:
        """Take over the replicas, and the ISR if it is new. Otherwise a proposal may have been made since."""
        self.in_sync.assign(image.replicas)
        self.directories = dict(zip(image.replicas, image.directories, strict=False))
        if is_new_state:
            self._set_isr(image.isr, image.partition_epoch)

    def _set_isr(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """Apply the ISR that the controller has committed."""
        partition, in_sync = self.partition, self.in_sync
        if isr != in_sync.isr:
            partition.context.isr_changes.add(in_sync.isr, isr)
            partition.trace("isr_changed", isr=isr, partition_epoch=partition_epoch)
        partition.partition_epoch = partition_epoch
        in_sync.commit(isr, partition.context.now_ms())

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        directory = self.directories.get(broker_id, UNASSIGNED_DIRECTORY)
        return self.partition.context.may_join(broker_id, broker_epoch, directory)

    def state_changed(self) -> None:
        partition, in_sync = self.partition, self.in_sync
        self.answers_at_once = not in_sync.followers and not partition.flushes_appends
        self.is_under_min_isr = len(in_sync.isr) < self.min_isr
        partition.log_appended()
        if not partition.flushes_appends:
            partition.waiters.for_flush.complete_up_to(self.log.readable_end_offset)

    @property
    def replica_count(self) -> int:
        return len(self.in_sync.followers) + 1

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but no more than there are replicas, as in Kafka."""
        return min(self.partition.min_insync_replicas, self.replica_count)

    # Appending

    def committed_log(self) -> Log:
        return self.log

    def leader_log(self) -> Log:
        return self.log

    def append(self, batches: memoryview, acks: int, now_ms: int) -> AppendInfo:
        if acks == -1 and self.is_under_min_isr:
            raise self._not_enough_replicas()
        return self.log.append(batches, self.partition.leader_epoch, now_ms)

    def append_as_coordinator(
        self, batch: memoryview, now_ms: int, *, acks: int = -1, transaction_version: int = 0
    ) -> AppendInfo:
        if acks == -1:
            self.check_min_isr()
        epoch = self.partition.leader_epoch
        return self.log.append_as_coordinator(batch, epoch, now_ms, transaction_version=transaction_version)

    def check_min_isr(self) -> None:
        """Raises KafkaError NOT_ENOUGH_REPLICAS while fewer than `min.insync.replicas` are in sync."""
        if self.is_under_min_isr:
            raise self._not_enough_replicas()

    def _not_enough_replicas(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.partition} has {len(self.in_sync.isr)} in-sync replicas, min.insync.replicas is {self.min_isr}",
        )

    def awaits(self, acks: int, end_offset: int) -> Acknowledgements | None:
        if self.answers_at_once:
            return None
        partition = self.partition
        if acks == -1:
            return None if end_offset <= partition.commit_state.high_watermark else partition.waiters.for_commit
        return partition.waiters.for_flush if partition.flushes_appends and end_offset > self.flushed_end else None

    def begin_flushing(self) -> None:
        self.flushed_end = self.partition.high_watermark

    def request_flush(self) -> None:
        if self.flushed_end < self.log.readable_end_offset:
            self.partition.tasks.flush(self.partition)

    def flushed(self, end_offset: int) -> None:
        self.flushed_end = max(self.flushed_end, end_offset)
        self.partition.waiters.for_flush.complete_up_to(self.flushed_end)
        self.advance_high_watermark()

    # The high watermark

    @property
    def knows_committed(self) -> bool:
        return self.partition.high_watermark >= self.in_sync.epoch_start_offset

    def advance_high_watermark(self) -> None:
        log, partition = self.log, self.partition
        end = log.readable_end_offset if self.answers_at_once else self._committable_end(log.readable_end_offset)
        if end > partition.commit_state.high_watermark:
            partition.move_high_watermark(log, end)

    def _committable_end(self, end_offset: int) -> int:
        """The offset up to which a log that ends at `end_offset` may be committed.

        While fewer than `min.insync.replicas` are in sync the high watermark stays: those few might be lost (KIP-966).
        """
        partition, in_sync = self.partition, self.in_sync
        if self.is_under_min_isr:
            return partition.commit_state.high_watermark
        end = min(end_offset, self.flushed_end) if partition.flushes_appends else end_offset
        return min(end, in_sync.high_watermark(end_offset, partition.context.now_ms()))

    # Followers

    def find_follower(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> Follower:
        """The follower with this id. Raises KafkaError without a replica, or for a former incarnation (KIP-903)."""
        partition, follower = self.partition, self.in_sync.followers.get(replica_id)
        if follower is None:
            # A follower that sends an epoch knows of a reassignment which this broker has not applied yet.
            is_old = current_leader_epoch == NO_EPOCH
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"broker {replica_id} has no replica of {partition}")
        if partition.context.is_former_incarnation(replica_id, broker_epoch):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} has a newer epoch than {broker_epoch}"
            )
        return follower

    def follower_fetched(
        self, follower: Follower, *, broker_epoch: int, fetch_offset: int, log_start_offset: int
    ) -> None:
        """Record a follower's progress: its fetch offset says that it has all records before. Called once per request.

        The fetch must be of the current leader epoch, within the log and without divergence; otherwise the follower may
        hold other records. May advance the high watermark, and may propose the follower for the ISR.
        """
        partition, in_sync = self.partition, self.in_sync
        has_moved = fetch_offset != follower.log_end_offset
        has_deleted = log_start_offset > follower.log_start_offset
        follower.fetched(
            end_offset=fetch_offset,
            start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=self.log.readable_end_offset,
            now_ms=partition.context.now_ms(),
        )
        if follower.refetches.bit_count() == 1:  # less and less often
            partition.tasks.check_log(partition, fetch_offset)
        if follower.broker_id not in in_sync.isr:
            self._propose(in_sync.to_expand(follower, partition.commit_state.high_watermark))
        if has_moved:
            self.advance_high_watermark()
        if has_deleted:
            partition.waiters.notify_deletions(partition)

    def record_caught_up(self, replica_id: int, broker_epoch: int, end_offset: int, at_ms: float) -> None:
        """Record that this incarnation of an in-sync follower was caught up at `at_ms`, if it has fetched `end_offset`.

        Within a fetch session a request that names no partition says that nothing has changed. That is not recorded for
        each partition and request, but here: just before the log grows, or as soon as it has grown.
        """
        in_sync = self.in_sync
        follower = in_sync.followers.get(replica_id) if replica_id in in_sync.isr else None
        if follower is not None and (follower.broker_epoch, follower.log_end_offset) == (broker_epoch, end_offset):
            follower.caught_up_ms = max(follower.caught_up_ms, at_ms)

    # Proposals

    def propose_shrinking(self) -> None:
        """Propose to remove the followers that were not caught up for longer than replica.lag.time.max.ms, if any."""
        self._propose(self.in_sync.to_shrink(self.log.readable_end_offset, self.partition.context.now_ms()))

    def propose_handover(self) -> bool:
        """Propose that another member of the ISR leads; False if there is none. For a leader whose log is damaged."""
        if len(self.in_sync.isr) <= 1:
            return False
        self._propose(self.in_sync.to_leave())
        return True

    def propose_recovery(self, image: PartitionImage) -> None:
        """Propose to end the recovery of a partition whose leader was elected uncleanly (KIP-704).

        As in Kafka, the partition has recovered as soon as it has a leader: that leader's log is the partition. `image`
        is the metadata that was just applied. A partition with a single replica never recovers from an election.
        """
        in_sync = self.in_sync
        if image.leader_recovery_state != LEADER_RECOVERING or not in_sync.followers or in_sync.proposal is not None:
            return
        if image.partition_epoch == self.partition.partition_epoch:
            self._propose(Proposal(in_sync.isr))

    def _propose(self, proposal: Proposal | None) -> None:
        if proposal is not None:
            partition = self.partition
            self.in_sync.proposal = proposal
            partition.trace("isr_proposed", isr=proposal.isr, joining=proposal.joining)
            partition.tasks.propose_isr(partition)

    def proposal_accepted(
        self, proposal: Proposal, *, leader_epoch: int, partition_epoch: int, isr: Sequence[int]
    ) -> None:
        """Apply the controller's response to a proposal that it has committed.

        Does nothing if the metadata log has brought a later state, which has dropped the proposal.
        """
        partition = self.partition
        if not self._is_pending(proposal) or leader_epoch != partition.leader_epoch:
            return
        assert partition_epoch >= partition.partition_epoch, "an older proposal would have been dropped"
        self._set_isr(tuple(isr), partition_epoch)
        partition.state_changed()

    def proposal_refused(self, proposal: Proposal, code: ErrorCode) -> bool:
        """Handle the controller's refusal of a proposal; returns whether to send it again.

        INELIGIBLE_REPLICA means that the epochs were current and that nothing was changed: only then the proposal can
        be dropped.
        """
        if not self._is_pending(proposal):
            return False
        # A controller of an earlier version lets no leader leave the ISR.
        is_refused_handover = code is ErrorCode.INVALID_REQUEST and self.partition.local_id not in proposal.isr
        if is_refused_handover or code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
            self.in_sync.proposal = None
            self.advance_high_watermark()
            return False
        return code not in _AWAIT_METADATA

    def _is_pending(self, proposal: Proposal) -> bool:
        """True while this role lasts, and no later state has dropped the proposal."""
        return self.partition.role is self and self.in_sync.proposal is proposal


def leading(partition: Partition, current_leader_epoch: int = NO_EPOCH) -> LeaderRole:
    """The role of a partition that leads. Raises KafkaError as `Partition.leader_log` does."""
    partition.leader_log(current_leader_epoch)
    role = partition.role
    assert isinstance(role, LeaderRole), "only a leader has a leader's log"
    return role
