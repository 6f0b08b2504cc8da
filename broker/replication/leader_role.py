"""A leader's part in replication: it finds diverging logs, tracks its followers, and proposes changes of the ISR.

The rules for diverging logs are those of KIP-101, 279 and 595, those for the ISR of KIP-497, 704, 841 and 903.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from broker.replication.in_sync_replicas import Follower, InSyncReplicas, Proposal
from broker.replication.partition import NO_EPOCH, Partition
from broker.storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from broker.storage.log import AppendInfo, Log
from broker.wire.errors import ErrorCode, KafkaError
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


@attrs.frozen
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


def append_as_coordinator(
    partition: Partition, batch: memoryview, now_ms: int, *, acks: int = -1, transaction_version: int = 0
) -> AppendInfo:
    """Append a batch that a coordinator on this broker has made (see `Log.append_as_coordinator`).

    Raises KafkaError as it does, and NOT_ENOUGH_REPLICAS for acks=all (-1) as `Partition.append` does.
    """
    log = partition.leader_log()
    if acks == -1 and partition.is_under_min_isr:
        raise partition.not_enough_replicas()
    return log.append_as_coordinator(batch, partition.leader_epoch, now_ms, transaction_version=transaction_version)


def find_follower(partition: Partition, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> Follower:
    """The follower with this id. Raises KafkaError without a replica, or for a former incarnation (KIP-903)."""
    follower = None if partition.in_sync is None else partition.in_sync.followers.get(replica_id)
    if follower is None:
        # A follower that sends an epoch knows of a reassignment which this broker has not applied yet.
        is_old = current_leader_epoch == NO_EPOCH
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"broker {replica_id} has no replica of {partition}")
    if partition.context.is_former_incarnation(replica_id, broker_epoch):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} has a newer epoch than {broker_epoch}")
    return follower


def follower_fetched(
    partition: Partition, log: Log, follower: Follower, *, broker_epoch: int, fetch_offset: int, log_start_offset: int
) -> None:
    """Record a follower's progress: its fetch offset says that it has all records before. Called once per request.

    The fetch must be of the current leader epoch, within the log and without divergence; otherwise the follower may
    hold other records. May advance the high watermark, and may propose the follower for the ISR.
    """
    in_sync = partition.in_sync
    assert in_sync is not None, "a leader with followers"
    has_moved = fetch_offset != follower.log_end_offset
    has_deleted = log_start_offset > follower.log_start_offset
    follower.fetched(
        end_offset=fetch_offset,
        start_offset=log_start_offset,
        broker_epoch=broker_epoch,
        leader_end_offset=log.readable_end_offset,
        now_ms=partition.context.now_ms(),
    )
    if follower.refetches and follower.refetches.bit_count() == 1:  # less and less often
        partition.tasks.check_log(partition, fetch_offset)
    if follower.broker_id not in in_sync.isr:
        _propose(partition, in_sync, in_sync.to_expand(follower, partition.commit_state.high_watermark))
    if has_moved:
        partition.advance_high_watermark()
    if has_deleted:
        partition.waiters.notify_deletions(partition)


def record_caught_up(partition: Partition, replica_id: int, broker_epoch: int, end_offset: int, at_ms: float) -> None:
    """Record that this incarnation of an in-sync follower was caught up at `at_ms`, if it has fetched `end_offset`.

    Within a fetch session a request that names no partition says that nothing has changed. That is not recorded for
    each partition and request, but here: just before the log grows, or as soon as it has grown.
    """
    in_sync = partition.in_sync
    follower = None if in_sync is None or replica_id not in in_sync.isr else in_sync.followers.get(replica_id)
    if follower is not None and (follower.broker_epoch, follower.log_end_offset) == (broker_epoch, end_offset):
        follower.caught_up_ms = max(follower.caught_up_ms, at_ms)


def propose_shrinking(partition: Partition) -> None:
    """Propose to remove the followers that were not caught up for longer than replica.lag.time.max.ms, if any."""
    log, in_sync = partition.log, partition.in_sync
    if log is not None and in_sync is not None:
        _propose(partition, in_sync, in_sync.to_shrink(log.readable_end_offset, partition.context.now_ms()))


def propose_handover(partition: Partition) -> bool:
    """Propose that another member of the ISR leads; False if there is none. For a leader whose log is damaged."""
    in_sync = partition.in_sync
    if in_sync is None or len(in_sync.isr) <= 1:
        return False
    _propose(partition, in_sync, in_sync.to_leave())
    return True


def propose_recovery(partition: Partition, image: PartitionImage) -> None:
    """Propose to end the recovery of a partition whose leader was elected uncleanly (KIP-704).

    As in Kafka, the partition has recovered as soon as it has a leader: that leader's log is the partition. `image` is
    the metadata that was just applied. A partition with a single replica never recovers from an election.
    """
    in_sync = partition.in_sync
    if image.leader_recovery_state != LEADER_RECOVERING or in_sync is None or in_sync.proposal is not None:
        return
    if image.partition_epoch == partition.partition_epoch:
        _propose(partition, in_sync, Proposal(in_sync.isr))


def _propose(partition: Partition, in_sync: InSyncReplicas, proposal: Proposal | None) -> None:
    if proposal is not None:
        in_sync.proposal = proposal
        partition.trace("isr_proposed", isr=proposal.isr, joining=proposal.joining)
        partition.tasks.propose_isr(partition)


def proposal_accepted(
    partition: Partition, proposal: Proposal, *, leader_epoch: int, partition_epoch: int, isr: Sequence[int]
) -> None:
    """Apply the controller's response to a proposal that it has committed.

    Does nothing if the metadata log has brought a later state, which has dropped the proposal.
    """
    in_sync = partition.in_sync
    if in_sync is None or in_sync.proposal is not proposal or leader_epoch != partition.leader_epoch:
        return
    assert partition_epoch >= partition.partition_epoch, "an older proposal would have been dropped"
    partition.set_isr(in_sync, tuple(isr), partition_epoch)


def proposal_refused(partition: Partition, proposal: Proposal, code: ErrorCode) -> bool:
    """Handle the controller's refusal of a proposal; returns whether to send it again.

    INELIGIBLE_REPLICA means that the epochs were current and that nothing was changed: only then the proposal can be
    dropped.
    """
    in_sync = partition.in_sync
    if in_sync is None or in_sync.proposal is not proposal:
        return False
    # A controller of an earlier version lets no leader leave the ISR.
    is_refused_handover = code is ErrorCode.INVALID_REQUEST and partition.local_id not in proposal.isr
    if is_refused_handover or code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
        in_sync.proposal = None
        partition.advance_high_watermark()
        return False
    return code not in _AWAIT_METADATA
