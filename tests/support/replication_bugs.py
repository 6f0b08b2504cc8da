"""Bugs planted into the rules of replication; see `planted_bugs`."""

from broker.handlers import list_offsets, offset_for_leader_epoch
from broker.handlers.fetch import partition_reads
from broker.replication import fetcher
from broker.replication.fetchers import Fetchers
from broker.replication.in_sync import InSyncReplicas
from broker.replication.partition import Partition
from broker.replication.refused_batches import RefusedBatches
from broker.replication.replica import Replica
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log import Log
from broker.storage.log_store import LogStore
from metadata.controller import alter_partition, partition_change_builder
from metadata.controller.brokers import BrokersControl
from metadata.controller.partition_change_builder import PartitionChangeBuilder
from tests.support.planted_bugs import PlantedBug

# What a follower of old did whenever it began to follow (KIP-101).
_CUT_AT_HIGH_WATERMARK = """\
if source_id is not None and partition not in self._cut:
        if partition.log.truncate_to(partition.high_watermark):
            self._was_cut(partition)
    if source_id is None or partition in self._cut:"""

REPLICATION_BUGS: dict[str, PlantedBug] = {
    # How logs that part become one again
    "followers cut their logs at the high watermark": PlantedBug(
        Fetchers, "_fetcher_for", "if source_id is None or partition in self._cut:", _CUT_AT_HIGH_WATERMARK
    ),
    "leaders do not look where logs part": PlantedBug(
        partition_reads, "diverging_epoch", "if last_fetched_epoch == NO_EPOCH:", "if True:"
    ),
    "leaders tell of epochs that they never had": PlantedBug(
        LeaderEpochCache, "end_offset_for", "(self._epochs[index - 1] if index else epoch)", "epoch"
    ),
    "followers do not look where their own epochs end": PlantedBug(
        fetcher, "truncate", "end_offset if own_epoch < 0 else min(end_offset, own_end_offset)", "end_offset"
    ),
    # Who may ask whom
    "fetches of any leader epoch are served": PlantedBug(
        Replica, "readable_log", "current_leader_epoch != NO_EPOCH and", "False and"
    ),
    "followers serve what they have not heard of": PlantedBug(
        Replica, "committed_log", "if not self.agrees_with_leader and", "if False and"
    ),
    "all epochs end where the log does": PlantedBug(
        offset_for_leader_epoch,
        "_end_offset",
        "log.epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)",
        "asked.leader_epoch, log.log_end_offset",
    ),
    "leaders tell what is committed before they know": PlantedBug(
        list_offsets, "_check_available", "if not partition.knows_committed:", "if False:"
    ),
    # Who is in sync, and what is committed
    "leaders commit alone": PlantedBug(Partition, "_committable", "if self.in_sync is not None:", "if False:"),
    "below min.insync.replicas all goes on": PlantedBug(
        Partition, "_committable", "if self.is_under_min_isr:", "if False:"
    ),
    "what is proposed counts as decided": PlantedBug(
        InSyncReplicas,
        "maximal",
        "if self.proposal is None or self.proposal.joining is None:",
        "if self.proposal is None:",
    ),
    "who joins counts only later": PlantedBug(
        InSyncReplicas,
        "waits_for",
        "follower.broker_id in self.maximal or self._is_about_to_join(follower, end_offset, now_ms)",
        "follower.broker_id in self.isr",
    ),
    "followers join below the start of the epoch": PlantedBug(
        InSyncReplicas, "to_expand", "max(high_watermark, self._epoch_start_offset)", "high_watermark"
    ),
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
    # Producers that number what they send
    "followers know nothing of producers": PlantedBug(
        Log, "_stage_fetched", "if header.producer_id >= 0:", "if False:"
    ),
    "batches behind refused ones are taken": PlantedBug(
        RefusedBatches, "check", "if not is_known and header.base_sequence > least:", "if False:"
    ),
    "producers are not forgotten with what is cut off": PlantedBug(
        LogStore, "truncate_to", "self._rebuild_producers(self._now_ms)", "pass"
    ),
}
