"""Opens a partition's log: recovers its files if needed, then loads its leader epochs and producer states."""

from broker.storage.checkpoints import CorruptCheckpoint
from broker.storage.durability import Durability
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log import NOT_CLEANED, Log
from broker.storage.log_config import LogConfig
from broker.storage.producer_replay import load_producers
from broker.storage.producer_snapshots import ProducerSnapshots
from broker.storage.producer_state import ProducerStates
from broker.storage.recovery import Recovery
from broker.storage.segment_list import SegmentList
from kraft.env import Disk, Tracer


def load_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
    producer_expiration_ms: int,
    trace: Tracer,
    cleaned_offset: int = NOT_CLEANED,
    starts_at_start: bool = False,
) -> Log:
    """Open the log in `directory`, which must exist; an empty directory becomes an empty log.

    `clean` says that the log was closed cleanly. It is then trusted if it ends at the checkpointed `recovery_point`,
    or if no recovery point is known. Otherwise everything from the recovery point on is validated, and the log is cut
    at the first batch that is not intact. `cleaned_offset` is the checkpointed end of the compacted part.
    `starts_at_start` says that the checkpoint of `log_start_offset` is written whenever segments are deleted, so that
    a log whose first segment begins later has lost records.

    Raises OSError, including NotADirectoryError.
    """
    names, durable, discarded = disk.list(directory), recovery_point, list[str]()
    epochs = _load_epochs(disk, directory, trace)
    if epochs is None:
        epochs, clean, recovery_point = LeaderEpochCache(disk, directory), False, 0
    recovery = Recovery(
        disk, directory, config, epochs, discarded.append, trace, now_ms, cleaned_offset, durable, starts_at_start
    )
    loaded, end_offset = recovery.load(
        names, recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean
    )
    segments = SegmentList(disk, directory, loaded, discarded, trace)
    start_offset = max(log_start_offset, segments.first_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    snapshots = ProducerSnapshots(disk, directory, names, discard=discarded.append, trace=trace)
    _drop_snapshots(snapshots, segments, end_offset if clean else max(recovery_point, segments.first_offset))
    producers = ProducerStates(snapshots, partition=recovery.partition, expiration_ms=producer_expiration_ms)
    load_producers(producers, segments, start_offset, end_offset, now_ms, trace)
    durability = Durability(disk, directory, segments, epochs, snapshots, trace)
    durability.is_unsettled = durability.blocks_appends = recovery.has_cut
    durability.begin_at(end_offset if clean else max(0, min(recovery_point, end_offset)), end_offset, now_ms)
    segments.release()
    log = Log(directory, config, segments, durability, epochs, producers, trace, now_ms=now_ms)
    log.log_start_offset = start_offset
    log.log_end_offset = log.readable_end_offset = end_offset
    log.cleaned_offset = min(cleaned_offset, end_offset)
    return log


def replay_repaired(log: Log) -> bool:
    """Load the producers of a log again if some batches were damaged when they were loaded; False if none was.

    Raises OSError.
    """
    damaged_from = log.producers.snapshots.incomplete_from
    if damaged_from is None:
        return False
    log.commit()
    log.producers.snapshots.retain_within(log.segments.first_offset, damaged_from)
    log.reload_producers()
    return True


def _drop_snapshots(snapshots: ProducerSnapshots, segments: SegmentList, durable_end: int) -> None:
    """Delete snapshots that belong to no segment, or are after what is known to be durable.

    The states are replayed from the last snapshot, and the transaction indexes are rebuilt from there. Entries of an
    index that may not be durable must therefore be after the snapshot.
    """
    snapshots.retain_for_segments(segments.base_offsets)
    snapshots.retain_within(segments.first_offset, durable_end)


def _load_epochs(disk: Disk, directory: str, trace: Tracer) -> LeaderEpochCache | None:
    """The leader epochs of the checkpoint; None if that is corrupt, so that they must be rebuilt from the log."""
    try:
        return LeaderEpochCache.load(disk, directory)
    except CorruptCheckpoint as error:
        trace("storage_leader_epochs_corrupt", path=directory, error=str(error))
        return None
