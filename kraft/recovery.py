"""Formats and recovers a replica's directory."""

from collections.abc import Sequence

import attrs

from kraft.core import LogState, OffsetAndEpoch, ReplicaKey, VoterSet, VoterSetHistory
from kraft.core.control_records import decode_voters
from kraft.core.plausible_epochs import EPOCH_END
from kraft.env import Disk
from kraft.log import CorruptLog, DurableLog, QuorumStateFile, QuorumStateLost, Snapshots
from kraft.replicated_log import Batch, BatchKind

# The position of the bootstrap snapshot, which formatting writes. It replaces no entries, so it is never fetched, and
# replicas with and without it can form a quorum (KIP-853).
BOOTSTRAP = OffsetAndEpoch(0, 0)


class EpochsExhausted(Exception):
    """The epoch on disk is at the end of the range, so no leader can be elected in a later one."""


@attrs.frozen
class Recovered:
    """The recovered files and the state of the core.

    `bootstrap` are the records that this replica appends if it is the first leader of the quorum.
    """

    log: DurableLog
    snapshots: Snapshots
    election: QuorumStateFile
    log_state: LogState
    voters: VoterSetHistory
    batches: Sequence[Batch]
    bootstrap: tuple[bytes, ...]


async def format_log(disk: Disk, directory: str, voters: VoterSet, records: Sequence[bytes]) -> None:
    """Format `directory` for a new quorum of `voters`, whose first leader appends `records`. Creates the directory.

    Writes a snapshot at offset 0 and epoch 0, as Kafka's storage tool does (KIP-853). Replicas that join a quorum later
    need none. The records take effect when the first leader appends its own ones to the log, so replicas may be
    formatted with different records. Raises OSError, FsyncFailed.
    """
    disk.make_dir(directory)
    await disk.sync_dir(directory.rpartition("/")[0] or "/")
    snapshots = await Snapshots.open(disk, directory)
    await snapshots.save(BOOTSTRAP, voters, records)


async def begin_log(disk: Disk, directory: str) -> None:
    """Create the empty log of a replica of a new quorum durably, unless it has a log.

    A directory without a log therefore belongs to a replica that has never run. Raises OSError, FsyncFailed.
    """
    log, _ = await DurableLog.open(disk, directory)
    log.close()


async def recover(disk: Disk, directory: str, initial: VoterSet, me: ReplicaKey) -> Recovered:
    """Open the files in `directory`, which is created if missing. `initial` are the voters if the log has none.

    Raises CorruptLog, also if the snapshot at the log's start or a voter's quorum-state file is lost; EpochsExhausted;
    OSError.
    """
    log, batches = await DurableLog.open(disk, directory)
    snapshots = await Snapshots.open(disk, directory)
    election = await _open_election(disk, directory, may_be_lost=not _has_voted(me, batches, snapshots, initial))
    _refuse_last_epoch(directory, max(election.state.epoch, log.epoch))
    log_state, voters = _read(log, batches, snapshots, initial)
    place = snapshots.latest
    if place is None:
        return Recovered(log, snapshots, election, log_state, voters, batches, ())
    if place.offset > log_state.end_offset or log_state.epoch_before(place.offset) != place.epoch:
        log_state.reset(place)
        voters.truncate(0)
        await log.start_at(place.offset, place.epoch, keep=False)
        batches = []
    elif place.offset > log.start_offset:
        log_state.start_at(place)
        await log.start_at(place.offset, place.epoch, keep=True)
    log.start_epoch = place.epoch
    snapshot = snapshots.open_snapshot(place)
    voters.start_at(place.offset, snapshot.voters)
    bootstrap = tuple(record for portion in snapshot.portions for record in portion) if place == BOOTSTRAP else ()
    kept = [batch for batch in batches if batch.base_offset >= place.offset]
    return Recovered(log, snapshots, election, log_state, voters, kept, bootstrap)


def _refuse_last_epoch(directory: str, epoch: int) -> None:
    """Raises EpochsExhausted if the epoch after `epoch` is out of range."""
    if epoch + 1 >= EPOCH_END:
        raise EpochsExhausted(
            f"Epoch {epoch} in {directory} is at the end of the range, so no leader can be elected after it. "
            "Controllers with a lower epoch can go on without this node: replace its metadata directory by an empty, "
            "formatted one, and if it was a voter, remove and add it as one. If all controllers say this, restore "
            "their metadata directories from a backup."
        )


async def _open_election(disk: Disk, directory: str, *, may_be_lost: bool) -> QuorumStateFile:
    try:
        return await QuorumStateFile.open(disk, directory, may_be_lost=may_be_lost)
    except QuorumStateLost as lost:
        raise CorruptLog(f"{lost} is lost or damaged, so this voter does not know for whom it has voted") from lost


def _has_voted(me: ReplicaKey, batches: Sequence[Batch], snapshots: Snapshots, initial: VoterSet) -> bool:
    """True if this replica may have voted: its log has entries, and it is one of several voters.

    A lost vote of a sole voter does no harm, because it can only vote for itself. It continues in its log's epoch.
    """
    place = snapshots.latest
    named = [decode_voters(batch.records[0]) for batch in batches if batch.kind is BatchKind.VOTERS]
    if not batches and place in (None, BOOTSTRAP):
        return False
    voters = named[-1] if named else VoterSet()
    if not voters.voters and place is not None:
        voters = snapshots.open_snapshot(place).voters
    voters = voters if voters.voters else initial
    return voters.contains(me) and len(voters.ids) > 1


def _read(
    log: DurableLog, batches: Sequence[Batch], snapshots: Snapshots, initial: VoterSet
) -> tuple[LogState, VoterSetHistory]:
    place = snapshots.latest or BOOTSTRAP
    if log.start_offset > place.offset:
        raise CorruptLog(f"the log starts at {log.start_offset}, and the snapshot before it is gone")
    log_state = LogState(place if log.start_offset == place.offset else OffsetAndEpoch(log.start_offset, 0))
    voters = VoterSetHistory(initial)
    for batch in batches:
        log_state.append(batch.base_offset, batch.last_offset, batch.epoch)
        if batch.kind is BatchKind.VOTERS:
            voters.append(batch.base_offset, decode_voters(batch.records[0]))
    log_state.synced(log_state.end)
    return log_state, voters
