"""The follower: it fetches, appends, truncates where the leader's log differs, and detects the loss of its leader."""

from kraft.core.control_records import is_valid_control
from kraft.core.effects import InstallSnapshot, RefusedTruncation, TruncatePrefix, WriteSnapshot
from kraft.core.log_state import OffsetAndEpoch
from kraft.core.messages import Error, FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from kraft.core.replica import Replica
from kraft.core.roles import Follower, SnapshotDownload, Unattached
from kraft.core.voters import VoterSet
from kraft.replicated_log import Batch


def send_fetch(replica: Replica, state: Follower) -> None:
    """Fetch the next entries once the whole log is durable: the fetch offset acknowledges all entries below it."""
    if replica.installing is not None:
        return
    download = state.download
    if download is not None:
        if replica.requests.may_send(state.leader_id, FetchSnapshotRequest, replica.now_ms):
            snapshot_request = FetchSnapshotRequest(replica.epoch, replica.me, download.snapshot, download.position)
            replica.send(state.leader_id, state.leader_address, snapshot_request)
        return
    durable = replica.log.durable_end_offset == replica.log.end_offset
    if durable and replica.requests.may_send(state.leader_id, FetchRequest, replica.now_ms):
        replica.send(state.leader_id, state.leader_address, make_fetch_request(replica))


def send_fetch_without_leader(replica: Replica) -> None:
    """Fetch from a random voter or bootstrap server, whose response names the leader."""
    choices = [(voter.node_id, voter.address) for voter in replica.other_voters()]
    choices += [(-1 - index, address) for index, address in enumerate(replica.config.bootstrap_servers)]
    if replica.installing is not None or replica.requests.any_under_way:
        return
    free = [choice for choice in choices if replica.requests.may_send(choice[0], FetchRequest, replica.now_ms)]
    if free:
        replica.send(*replica.pick(free), make_fetch_request(replica))


def on_fetch_response(replica: Replica, source: int, request: FetchRequest, response: FetchResponse) -> None:
    state = replica.state
    if (
        response.error is not Error.NONE
        or response.current_leader.epoch != replica.epoch
        or not isinstance(state, Follower)
    ):
        back_off(replica, source, FetchRequest)
        if isinstance(state, Follower) and response.error is Error.NOT_LEADER_OR_FOLLOWER:
            on_leader_lost(replica, state)
        return
    if response.diverging is not None and _may_truncate(replica, source, response.diverging):
        reset_fetch_timeout(replica, state)
        _truncate(replica, source, response.diverging)
    elif response.snapshot is not None and _is_ahead(replica, response.snapshot):
        reset_fetch_timeout(replica, state)
        state.download = SnapshotDownload(response.snapshot)
    elif (response.diverging, response.snapshot) == (None, None) and _follows(replica, request, response.batches):
        reset_fetch_timeout(replica, state)
        if response.batches:
            replica.append(response.batches)
        state.has_caught_up = state.has_caught_up or response.high_watermark <= replica.log.end_offset
        replica.commit(min(response.high_watermark, replica.log.end_offset))
    else:  # an invalid response does not reset the fetch timeout
        back_off(replica, source, FetchRequest)


def on_snapshot_response(
    replica: Replica, source: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse
) -> None:
    """Write the bytes at the download's position, and install the snapshot once it is complete (KIP-630)."""
    state = replica.state
    if not isinstance(state, Follower) or state.download is None or state.download.snapshot != request.snapshot:
        return
    download = state.download
    if response.error is Error.SNAPSHOT_NOT_FOUND:
        replica.cancel_snapshot_download(state)
        back_off(replica, source, FetchRequest)
    elif response.error is not Error.NONE or response.position != download.position or not response.data:
        back_off(replica, source, FetchSnapshotRequest)
    else:
        reset_fetch_timeout(replica, state)
        replica.effects.append(WriteSnapshot(download.snapshot, download.position, response.data))
        download.position += len(response.data)
        if download.position >= response.size_bytes:
            replica.installing = download.snapshot
            state.download = None
            replica.effects.append(InstallSnapshot(download.snapshot))


def on_snapshot_installed(replica: Replica, snapshot: OffsetAndEpoch, voters: VoterSet) -> None:
    assert snapshot == replica.installing, f"{snapshot} was installed, not {replica.installing}"
    replica.installing = None
    replica.log.reset(snapshot)
    replica.voter_history.truncate(0)
    replica.voter_history.start_at(snapshot.offset, voters)
    replica.commit(snapshot.offset)


def on_snapshot_refused(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    """Fetch again after a backoff: by then the leader may have a later snapshot, or there may be another leader."""
    assert snapshot == replica.installing, f"{snapshot} was refused, not {replica.installing}"
    replica.installing = None
    if isinstance(replica.state, Follower):
        until_ms = replica.now_ms + replica.config.election_backoff_max_ms
        replica.requests.back_off(replica.state.leader_id, FetchRequest, until_ms)


def on_snapshot_taken(replica: Replica, snapshot: OffsetAndEpoch) -> None:
    """Start the log at a snapshot that this replica took, and keep the voter set of that offset.

    Ignored while a fetched snapshot is being installed, which is of a later state.
    """
    assert snapshot.offset <= replica.high_watermark, f"a snapshot at {snapshot} of uncommitted entries"
    if snapshot.offset <= replica.log.start.offset or replica.installing is not None:
        return
    replica.voter_history.start_at(snapshot.offset, replica.voter_history.at(snapshot.offset))
    replica.log.start_at(snapshot)
    replica.effects.append(TruncatePrefix(snapshot))


def on_leader_lost(replica: Replica, state: Follower) -> None:
    """Shorten the fetch timeout to a random backoff, so that one follower starts its election before the others."""
    if not state.leader_lost:
        state.leader_lost = True
        pause_ms = replica.election_backoff_ms(replica.lost_elections + 1)
        state.deadline_ms = min(state.deadline_ms, replica.now_ms + pause_ms)


def reset_fetch_timeout(replica: Replica, state: Follower) -> None:
    replica.lost_elections = 0
    state.heard_ms = replica.now_ms
    state.leader_lost = False
    state.deadline_ms = replica.now_ms + replica.random_fetch_timeout_ms()


def back_off(replica: Replica, destination: int, kind: type[FetchRequest] | type[FetchSnapshotRequest]) -> None:
    replica.requests.back_off(destination, kind, replica.now_ms + replica.config.retry_backoff_ms)


def has_to_find_leader(replica: Replica) -> bool:
    """True for a replica without a leader that cannot be elected: an observer, or a voter that has lost entries."""
    return isinstance(replica.state, Unattached) and (not replica.is_voter or replica.log.lost_end is not None)


def make_fetch_request(replica: Replica) -> FetchRequest:
    return FetchRequest(replica.epoch, replica.me, replica.log.end, replica.high_watermark)


def _follows(replica: Replica, request: FetchRequest, batches: tuple[Batch, ...]) -> bool:
    """True if the batches continue the log, and are valid. A faulty leader must not damage the log."""
    offset, epoch = replica.log.end_offset, replica.log.last_epoch
    if request.log_end != replica.log.end:
        return False
    for batch in batches:
        if batch.base_offset != offset or not epoch <= batch.epoch <= replica.epoch or not is_valid_control(batch):
            return False
        offset, epoch = batch.last_offset + 1, batch.epoch
    return True


def _may_truncate(replica: Replica, source: int, diverging: OffsetAndEpoch) -> bool:
    """False if the truncation would remove committed entries.

    A leader that lacks committed entries means that a voter has lost entries that it had acknowledged.
    """
    end_offset = replica.log.truncation_point(diverging)
    if end_offset >= replica.high_watermark:
        return True
    replica.effects.append(RefusedTruncation(source, end_offset, replica.high_watermark))
    return False


def _is_ahead(replica: Replica, snapshot: OffsetAndEpoch) -> bool:
    """True if the snapshot covers all committed entries, and is not of an epoch after the replica's own."""
    return 0 < snapshot.offset >= replica.high_watermark and snapshot.epoch <= replica.epoch


def _truncate(replica: Replica, source: int, diverging: OffsetAndEpoch) -> None:
    """Truncate to the last offset at which both logs may agree. The next Fetch verifies that they do (KIP-595)."""
    end_offset = replica.log.truncation_point(diverging)
    if end_offset < replica.log.end_offset:
        replica.truncate(end_offset)
    else:
        back_off(replica, source, FetchRequest)
