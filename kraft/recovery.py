"""Formats and recovers a replica's directory."""

from collections.abc import Sequence
from contextlib import suppress

import attrs

from kraft import lazy_attrs
from kraft.core import LogState, OffsetAndEpoch, QuorumConfig, VoterSet, VoterSetHistory, latest_end
from kraft.core.control_records import decode_voters
from kraft.core.plausible_epochs import EPOCH_END
from kraft.env import Disk
from kraft.log import (
    CorruptLog,
    DurableLog,
    EntriesLost,
    QuorumStateFile,
    QuorumStateLost,
    Snapshots,
)
from kraft.replicated_log import Batch, BatchKind

# The position of the bootstrap snapshot, which formatting writes. It replaces no entries, so it is never fetched, and
# replicas with and without it can form a quorum (KIP-853).
BOOTSTRAP = OffsetAndEpoch(0, 0)


class EpochsExhausted(Exception):
    """The epoch on disk is at the end of the range, so no leader can be elected in a later one."""


@lazy_attrs.frozen
class Recovered:
    """The recovered files and the state of the core.

    `bootstrap` are the records that this replica appends if it is the first leader of the quorum. `damage` says what is
    wrong with the files, if entries are gone that were durable: `log_state.lost_end` is set then.
    """

    log: DurableLog
    snapshots: Snapshots
    election: QuorumStateFile
    log_state: LogState
    voters: VoterSetHistory
    batches: Sequence[Batch]
    bootstrap: tuple[bytes, ...]
    damage: str = ""


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


async def recover(disk: Disk, directory: str, initial: VoterSet, config: QuorumConfig) -> Recovered:
    """Open the files in `directory`, which is created if missing. `initial` are the voters if the log has none.

    Entries that the disk has lost are to be fetched again from the other voters. Raises CorruptLog if there are none,
    and if the snapshot at the log's start is missing or a voter's quorum-state file is lost; EpochsExhausted; OSError.
    """
    disk.make_dir(directory)
    snapshots = await Snapshots.open(disk, directory)
    damage = snapshot_damage = snapshots.damage()
    try:
        log, batches = await DurableLog.open(disk, directory, snapshots.latest or BOOTSTRAP)
    except EntriesLost as lost:
        if not _can_be_fetched(config, _known_voters(lost.batches, snapshots, initial)):
            raise
        damage = damage or lost.damage
        log, batches = await DurableLog.open(disk, directory, snapshots.latest or BOOTSTRAP, cut=True)
    known_voters = _known_voters(batches, snapshots, initial)
    has_voted = known_voters.contains(config.me) and len(known_voters.ids) > 1
    if not batches and snapshots.latest in (None, BOOTSTRAP):
        has_voted = False
    election = await _open_election(disk, directory, may_be_lost=not has_voted)
    _refuse_last_epoch(directory, max(election.state.epoch, log.epoch))
    if snapshot_damage:
        if snapshots.latest == BOOTSTRAP or not _can_be_fetched(config, known_voters):
            raise CorruptLog(snapshot_damage)
        assert snapshots.latest is not None, "it is damaged"
        await log.restart(latest_end(log.end, snapshots.latest))
        await snapshots.remove_all()
        batches = []
    recovered = await _start_at_snapshot(log, snapshots, election, batches, initial)
    _note_loss(recovered.log_state, log)
    return attrs.evolve(recovered, damage=damage)


def _note_loss(log_state: LogState, log: DurableLog) -> None:
    if log_state.end.is_before(log.durable_end):
        log_state.lost_end = log.durable_end


@lazy_attrs.frozen
class Loss:
    """Entries from `end_offset` to `lost_end_offset` that were durable and are gone. `damage` says what is wrong."""

    damage: str
    end_offset: int
    lost_end_offset: int


async def find_loss(disk: Disk, directory: str) -> Loss | None:
    """Return what is lost of the log in `directory`; None if nothing is. Raises CorruptLog, OSError.

    Changes nothing that a start would not change, too: a torn tail is cut off. The node must be down.
    """
    snapshots = await Snapshots.open(disk, directory)
    if damage := snapshots.damage():
        raise CorruptLog(damage)
    place = snapshots.latest or BOOTSTRAP
    try:
        log, _ = await DurableLog.open(disk, directory, place)
    except EntriesLost as lost:
        end_offset = lost.batches[-1].last_offset + 1 if lost.batches else 0
        return Loss(lost.damage, max(place.offset, end_offset), lost.lost_end.offset)
    log.close()
    return None


async def accept_loss(disk: Disk, directory: str) -> None:
    """Let the log in `directory` end before the first lost entry. The rest is removed. Raises FsyncFailed, OSError.

    Committed entries may be among the lost ones. The node must be down.
    """
    snapshots = await Snapshots.open(disk, directory)
    log, _ = await DurableLog.open(disk, directory, snapshots.latest or BOOTSTRAP, cut=True)
    await log.accept_loss()
    log.close()


async def _start_at_snapshot(
    log: DurableLog, snapshots: Snapshots, election: QuorumStateFile, batches: Sequence[Batch], initial: VoterSet
) -> Recovered:
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


def _known_voters(batches: Sequence[Batch], snapshots: Snapshots, initial: VoterSet) -> VoterSet:
    """The latest voters that the intact files name."""
    named = [decode_voters(batch.records[0]) for batch in batches if batch.kind is BatchKind.VOTERS]
    voters = named[-1] if named else VoterSet()
    if not voters.voters and snapshots.latest is not None:
        with suppress(CorruptLog):
            voters = snapshots.open_snapshot(snapshots.latest).voters
    return voters if voters.voters else initial


def _can_be_fetched(config: QuorumConfig, voters: VoterSet) -> bool:
    """True if lost entries may be fetched from other voters, or from a bootstrap server if no voters are known."""
    if not voters.voters:
        return config.names_other_servers
    return any(voter.node_id != config.me.node_id for voter in voters.voters)


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
