"""Bugs to plant into the rules of replication; see `planted_bugs`."""

from contextlib import suppress
from typing import Any

import attrs

from broker.handlers import list_offsets, offset_for_leader_epoch
from broker.handlers.fetch import log_reader
from broker.replication import follower_role
from broker.replication.in_sync_replicas import Follower, InSyncReplicas, Proposal
from broker.replication.leader_role import LeaderRole
from broker.replication.log_copy import LogCopy
from broker.replication.partition import NO_EPOCH, Partition
from broker.replication.refused_batches import RefusedBatches
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from broker.replication.segment_repair import RepairFailed, SegmentRepair
from broker.storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochCache
from broker.storage.log import Log
from broker.wire.api.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderPartition
from metadata.controller import alter_partition, partition_change_builder
from metadata.controller.alter_partition import ANY_BROKER_EPOCH, IsrMember
from metadata.controller.brokers import BrokerRegistration, BrokersControl
from metadata.controller.partition_change_builder import PartitionChangeBuilder
from metadata.image import MetadataImage
from tests.support.planted_bugs import Bug, PatchedFunction, PatchedFunctions, always, does_nothing


def _truncate_to_high_watermark(fetcher_for: Any) -> Any:
    """Truncate to the high watermark when following starts, as Kafka did before KIP-101."""

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
    def wrong(leader: LeaderRole, end_offset: int) -> int:
        is_under_min_isr, leader.is_under_min_isr = leader.is_under_min_isr, False
        try:
            end: int = committable_end(leader, end_offset)
        finally:
            leader.is_under_min_isr = is_under_min_isr
        return end

    return wrong


def _trust_proposal(maximal: Any) -> Any:
    return lambda in_sync: in_sync.isr if in_sync.proposal is None else in_sync.proposal.isr


def _wait_for_isr_only(waits_for: Any) -> Any:
    return lambda in_sync, follower, end_offset, now_ms: follower.broker_id in in_sync.isr


def _ignore_epoch_start(to_expand: Any) -> Any:
    def wrong(in_sync: InSyncReplicas, follower: Follower, high_watermark: int) -> Proposal | None:
        epoch_start_offset, in_sync.epoch_start_offset = in_sync.epoch_start_offset, high_watermark
        try:
            proposal: Proposal | None = to_expand(in_sync, follower, high_watermark)
        finally:
            in_sync.epoch_start_offset = epoch_start_offset
        return proposal

    return wrong


def _accept_fenced(is_eligible: Any) -> Any:
    def wrong(image: MetadataImage, member: IsrMember) -> bool:
        broker = image.cluster.brokers.get(member.broker_id)
        return broker is not None and member.broker_epoch in (ANY_BROKER_EPOCH, broker.broker_epoch)

    return wrong


def _ignore_broker_epoch(is_eligible: Any) -> Any:
    return lambda image, member: is_eligible(image, IsrMember(member.broker_id))


def _trust_every_shutdown(register_new: Any) -> Any:
    def wrong(
        control: BrokersControl, image: MetadataImage, request: BrokerRegistration, existing: Any, next_offset: int
    ) -> Any:
        if existing is not None:
            request = attrs.evolve(request, previous_broker_epoch=existing.broker_epoch)
        return register_new(control, image, request, existing, next_offset)

    return wrong


def _elect_uncleanly(chosen: Any) -> Any:
    def wrong(builder: PartitionChangeBuilder, state: Any) -> Any:
        return chosen(attrs.evolve(builder, rules=attrs.evolve(builder.rules, unclean=True)), state)

    return wrong


def _ask_another_replica(connect: Any) -> Any:
    async def wrong(repair: SegmentRepair) -> Any:
        follower, context = repair.follower, repair.context
        leader_id, local_id = follower.leader_id, repair.partition.local_id
        others = [each for each in range(1, 10) if context.source(each) and each not in (local_id, leader_id)]
        follower.leader_id = others[-1]
        try:
            return await connect(repair)
        finally:
            follower.leader_id = leader_id

    return wrong


def _accept_fewer_records(fetch: Any) -> Any:
    async def wrong(repair: SegmentRepair, *args: Any) -> None:
        with suppress(RepairFailed):
            await fetch(repair, *args)

    return wrong


def _skip_recovery_point(finish: Any) -> Any:
    """Let the copy of a log in another log directory replace it although a power cut may still lose records of it."""

    def wrong(copy: LogCopy) -> bool:
        copy.future.durability.recovery_point = max(
            copy.future.durability.recovery_point, copy.current.durability.recovery_point
        )
        return bool(finish(copy))

    return wrong


REPLICATION_BUGS: dict[str, Bug] = {
    # Moves between log directories
    "copies replace logs before they are durable": PatchedFunctions(
        PatchedFunction(LogCopy, "make_durable", does_nothing), PatchedFunction(LogCopy, "finish", _skip_recovery_point)
    ),
    # Damaged logs
    "followers repair their logs from a replica that is behind": PatchedFunctions(
        PatchedFunction(SegmentRepair, "_connect", _ask_another_replica),
        PatchedFunction(SegmentRepair, "_fetch", _accept_fewer_records),
    ),
    # Diverging logs
    "followers truncate to the high watermark": PatchedFunction(
        ReplicaFetcherManager, "_fetcher_for", _truncate_to_high_watermark
    ),
    "leaders do not detect diverging logs": PatchedFunction(log_reader, "diverging_epoch", does_nothing),
    "leaders answer with epochs that they never had": PatchedFunction(
        LeaderEpochCache, "end_offset_for", _answer_with_asked_epoch
    ),
    "followers ignore where their own epochs end": PatchedFunction(
        follower_role, "_truncation_offset", _take_leaders_end
    ),
    # Requests that must be refused
    "fetches of any leader epoch are served": PatchedFunction(Partition, "_check_epoch", does_nothing),
    "followers serve consumers before they agree with the leader": PatchedFunction(
        Partition, "committed_log", _serve_unconfirmed
    ),
    "every epoch ends at the log end": PatchedFunction(
        offset_for_leader_epoch, "_end_offset", _end_every_epoch_at_log_end
    ),
    "leaders list offsets before they know the high watermark": PatchedFunction(
        list_offsets, "_check_available", does_nothing
    ),
    # The ISR and the high watermark
    "leaders commit alone": PatchedFunction(InSyncReplicas, "high_watermark", _ignore_followers),
    "the high watermark advances below min.insync.replicas": PatchedFunction(
        LeaderRole, "_committable_end", _ignore_min_isr
    ),
    "a proposed ISR counts as decided": PatchedFunction(InSyncReplicas, "maximal", _trust_proposal),
    "a joining replica is not waited for": PatchedFunction(InSyncReplicas, "waits_for", _wait_for_isr_only),
    "followers join below the start of the epoch": PatchedFunction(InSyncReplicas, "to_expand", _ignore_epoch_start),
    "fenced brokers may be in sync": PatchedFunction(alter_partition, "_is_eligible", _accept_fenced),
    "broker epochs are ignored in ISR changes": PatchedFunction(alter_partition, "_is_eligible", _ignore_broker_epoch),
    # Elections
    "eligible leader replicas are ignored": PatchedFunction(partition_change_builder, "elr_in_use", always(False)),
    "crashes count as clean shutdowns": PatchedFunction(BrokersControl, "_register_new", _trust_every_shutdown),
    "elections are unclean": PatchedFunction(PartitionChangeBuilder, "_chosen", _elect_uncleanly),
    # Idempotent producers
    "followers keep no producer states": PatchedFunction(Log, "_observe_producer", does_nothing),
    "batches after refused ones are accepted": PatchedFunction(RefusedBatches, "check", does_nothing),
    "truncation keeps producer states": PatchedFunction(Log, "reload_producers", does_nothing),
}
