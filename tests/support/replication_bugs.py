"""Bugs planted into the rules of replication; see `planted_bugs`."""

from typing import Any

from broker.handlers import list_offsets, offset_for_leader_epoch
from broker.handlers.fetch import partition_reads
from broker.replication import follower_role
from broker.replication.in_sync_replicas import Follower, InSyncReplicas, Proposal
from broker.replication.partition import NO_EPOCH, Partition
from broker.replication.refused_batches import RefusedBatches
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from broker.storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochCache
from broker.storage.log import Log
from broker.wire.api.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderPartition
from metadata.controller import alter_partition, partition_change_builder
from metadata.controller.brokers import BrokersControl
from metadata.controller.partition_change_builder import PartitionChangeBuilder
from tests.support.planted_bugs import Bug, PatchedFunction, PlantedBug, does_nothing


def _truncate_to_high_watermark(fetcher_for: Any) -> Any:
    """Kafka's followers did so before KIP-101, whenever they began to follow."""

    def wrong(manager: ReplicaFetcherManager, partition: Partition) -> Any:
        log = partition.log
        follows = partition.source is not None and log is not None and partition not in manager._truncated
        if follows and log is not None and log.truncate_to(partition.high_watermark):
            manager._partition_truncated(partition)
        return fetcher_for(manager, partition)

    return wrong


def _answer_with_asked_epoch(end_offset_for: Any) -> Any:
    def wrong(cache: LeaderEpochCache, epoch: int, log_end_offset: int) -> tuple[int, int]:
        found, end_offset = end_offset_for(cache, epoch, log_end_offset)
        return (found if found == UNDEFINED_EPOCH else epoch), end_offset

    return wrong


def _take_leaders_end(right: Any) -> Any:
    return lambda log, diverging_epoch, end_offset: end_offset


def _ignore_epoch(readable_log: Any) -> Any:
    return lambda partition, current_leader_epoch=NO_EPOCH: readable_log(partition)


def _serve_unconfirmed(committed_log: Any) -> Any:
    return lambda partition, current_leader_epoch=NO_EPOCH: partition.readable_log(current_leader_epoch)


def _end_every_epoch_at_log_end(end_offset: Any) -> Any:
    def wrong(partition: Partition, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        end = partition.leader_log(asked.current_leader_epoch).log_end_offset
        return EpochEndOffset(partition=partition.index, leader_epoch=asked.leader_epoch, end_offset=end)

    return wrong


def _ignore_followers(high_watermark: Any) -> Any:
    return lambda in_sync, end_offset, now_ms: end_offset


def _ignore_min_isr(committable_end: Any) -> Any:
    def wrong(partition: Partition, end_offset: int) -> int:
        is_under_min_isr, partition.is_under_min_isr = partition.is_under_min_isr, False
        try:
            end: int = committable_end(partition, end_offset)
        finally:
            partition.is_under_min_isr = is_under_min_isr
        return end

    return wrong


def _trust_proposal(maximal: Any) -> Any:
    return lambda in_sync: in_sync.isr if in_sync.proposal is None else in_sync.proposal.isr


def _wait_for_isr_only(waits_for: Any) -> Any:
    return lambda in_sync, follower, end_offset, now_ms: follower.broker_id in in_sync.isr


def _ignore_epoch_start(to_expand: Any) -> Any:
    def wrong(in_sync: InSyncReplicas, follower: Follower, high_watermark: int) -> Proposal | None:
        epoch_start_offset, in_sync._epoch_start_offset = in_sync._epoch_start_offset, high_watermark
        try:
            proposal: Proposal | None = to_expand(in_sync, follower, high_watermark)
        finally:
            in_sync._epoch_start_offset = epoch_start_offset
        return proposal

    return wrong


REPLICATION_BUGS: dict[str, Bug] = {
    # Diverging logs
    "followers cut their logs at the high watermark": PatchedFunction(
        ReplicaFetcherManager, "_fetcher_for", _truncate_to_high_watermark
    ),
    "leaders do not look where logs part": PatchedFunction(partition_reads, "diverging_epoch", does_nothing),
    "leaders tell of epochs that they never had": PatchedFunction(
        LeaderEpochCache, "end_offset_for", _answer_with_asked_epoch
    ),
    "followers do not look where their own epochs end": PatchedFunction(
        follower_role, "_truncation_offset", _take_leaders_end
    ),
    # Requests that must be refused
    "fetches of any leader epoch are served": PatchedFunction(Partition, "readable_log", _ignore_epoch),
    "followers serve what they have not heard of": PatchedFunction(Partition, "committed_log", _serve_unconfirmed),
    "all epochs end where the log does": PatchedFunction(
        offset_for_leader_epoch, "_end_offset", _end_every_epoch_at_log_end
    ),
    "leaders tell what is committed before they know": PatchedFunction(list_offsets, "_check_available", does_nothing),
    # The ISR and the high watermark
    "leaders commit alone": PatchedFunction(InSyncReplicas, "high_watermark", _ignore_followers),
    "below min.insync.replicas all goes on": PatchedFunction(Partition, "_committable_end", _ignore_min_isr),
    "what is proposed counts as decided": PatchedFunction(InSyncReplicas, "maximal", _trust_proposal),
    "who joins counts only later": PatchedFunction(InSyncReplicas, "waits_for", _wait_for_isr_only),
    "followers join below the start of the epoch": PatchedFunction(InSyncReplicas, "to_expand", _ignore_epoch_start),
    "fenced brokers may be in sync": PlantedBug(
        alter_partition, "_is_eligible", "if broker is None or not broker.is_active:", "if broker is None:"
    ),
    "any life of a broker may be in sync": PlantedBug(
        alter_partition, "_is_eligible", "return member.broker_epoch in", "return True or member.broker_epoch in"
    ),
    # Who leads
    "nobody is eligible but who is in sync": PlantedBug(
        partition_change_builder, "elr_in_use", "return", "return False and"
    ),
    "crashes count as clean shutdowns": PlantedBug(
        BrokersControl,
        "_register_new",
        "existing is not None and request.previous_broker_epoch == existing.broker_epoch",
        "existing is not None",
    ),
    "elections are unclean": PlantedBug(PartitionChangeBuilder, "_chosen", "if self.rules.unclean:", "if True:"),
    # Idempotent producers
    "followers know nothing of producers": PatchedFunction(Log, "_observe_producer", does_nothing),
    "batches behind refused ones are taken": PlantedBug(
        RefusedBatches, "check", "if not is_known and header.base_sequence > least:", "if False:"
    ),
    "producers are not forgotten with what is cut off": PatchedFunction(Log, "_reload_producers", does_nothing),
}
