"""What a leader does for those that follow it: tell where their logs part, note their progress, propose who is in sync.

The rules are those of KIP-101, 279 and 595 for logs that part, and of KIP-497, 704, 841 and 903 for who is in sync.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from broker.replication.in_sync import Follower, InSyncReplicas, Proposal
from broker.replication.partition import Partition
from broker.replication.replica import NO_EPOCH
from broker.storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from broker.storage.log import Log
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import PartitionImage
from metadata.records import LEADER_RECOVERING

# After these the proposal stays: the controller knows of a newer state of the partition, which will come by the
# metadata log, or of one that this broker has no part in. Until then nobody knows whether an earlier attempt at the
# proposal was carried out, so it goes on to count.
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
    """The latest epoch before the reader's own that the leader knows, and where it ends."""

    epoch: int
    end_offset: int


def diverging_epoch(log: Log, last_fetched_epoch: int, fetch_offset: int) -> DivergingEpoch | None:
    """Where the leader's log parts from that of somebody whose last record has this epoch; None where it does not.

    Raises KafkaError OFFSET_OUT_OF_RANGE where the leader cannot tell.
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end_offset = log.epochs.end_offset_for(last_fetched_epoch, log.readable_end_offset)
    if epoch == UNDEFINED_EPOCH or end_offset == UNDEFINED_EPOCH_OFFSET:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of the epoch {last_fetched_epoch}")
    if fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the log starts at {log.log_start_offset}")
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return DivergingEpoch(epoch, end_offset)
    return None


def follower_of(partition: Partition, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> Follower:
    """The follower that asks. Raises KafkaError where it is none, or asks for a former life of its broker (KIP-903)."""
    follower = None if partition.in_sync is None else partition.in_sync.followers.get(replica_id)
    if follower is None:
        # With an epoch, the follower knows of a reassignment that this broker has yet to hear of.
        is_old = current_leader_epoch == NO_EPOCH
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"broker {replica_id} has no replica of {partition}")
    if partition.surroundings.is_of_former_life(replica_id, broker_epoch):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} has a newer epoch than {broker_epoch}")
    return follower


def follower_fetched(
    partition: Partition, log: Log, follower: Follower, *, broker_epoch: int, fetch_offset: int, log_start_offset: int
) -> None:
    """A follower asks for what comes after all it has: note that, once per request.

    Only to be called for a fetch of the current leader epoch from within the log, without a divergence: otherwise what
    the follower has is not what this leader has. May move the high watermark, and may propose the follower for the ISR.
    """
    in_sync = partition.in_sync
    assert in_sync is not None, "it has followers"
    has_moved = fetch_offset != follower.log_end_offset
    has_trimmed = log_start_offset > follower.log_start_offset
    follower.fetched(
        end_offset=fetch_offset,
        start_offset=log_start_offset,
        broker_epoch=broker_epoch,
        leader_end_offset=log.readable_end_offset,
        now_ms=partition.surroundings.now_ms(),
    )
    if follower.broker_id not in in_sync.isr:
        _propose(partition, in_sync, in_sync.to_expand(follower, partition.high_watermark))
    if has_moved and partition.advance_high_watermark():
        partition.moved()
    if has_trimmed:
        partition.wake_trimming()


def was_caught_up(partition: Partition, replica_id: int, broker_epoch: int, end_offset: int, at_ms: float) -> None:
    """This life of a follower in sync had all there was at that time, if it has fetched `end_offset` from this leader.

    For whoever asks again and again, and says by naming nothing that nothing has changed: within a fetch session that
    is not noted at each request. To be called before the log grows, or at once when it has.
    """
    in_sync = partition.in_sync
    follower = None if in_sync is None or replica_id not in in_sync.isr else in_sync.followers.get(replica_id)
    if follower is not None and (follower.broker_epoch, follower.log_end_offset) == (broker_epoch, end_offset):
        follower.caught_up_ms = max(follower.caught_up_ms, at_ms)


def propose_shrinking(partition: Partition) -> None:
    """Propose the ISR without those that were not caught up for longer than replica.lag.time.max.ms, if there are."""
    log, in_sync = partition.log, partition.in_sync
    if log is not None and in_sync is not None:
        _propose(partition, in_sync, in_sync.to_shrink(log.readable_end_offset, partition.surroundings.now_ms()))


def propose_recovery(partition: Partition, image: PartitionImage) -> None:
    """Tell the controller that a partition has recovered which an unclean election left without some of its records.

    It has as soon as somebody leads it: what the new leader holds is what there is, as in Kafka (KIP-704). `image` is
    what the partition has just become. One with a single replica has nobody to recover for.
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
        partition.surroundings.propose(partition)


def proposal_accepted(
    partition: Partition, proposal: Proposal, *, leader_epoch: int, partition_epoch: int, isr: Sequence[int]
) -> None:
    """What the controller says has become of the partition.

    Of no interest once the metadata log has said more: the proposal was dropped by that.
    """
    in_sync = partition.in_sync
    if in_sync is None or in_sync.proposal is not proposal or leader_epoch != partition.leader_epoch:
        return
    assert partition_epoch >= partition.partition_epoch, "an older proposal would have been dropped"
    partition.alter_isr(in_sync, tuple(isr), partition_epoch)


def proposal_refused(partition: Partition, proposal: Proposal, code: ErrorCode) -> bool:
    """Whether the proposal is to be made again.

    The controller that finds a replica ineligible says that the epochs were right, and that nothing was done: only then
    the proposal can be dropped.
    """
    in_sync = partition.in_sync
    if in_sync is None or in_sync.proposal is not proposal or code in _AWAIT_METADATA:
        return False
    if code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
        in_sync.proposal = None
        if partition.advance_high_watermark():
            partition.moved()
        return False
    return True
