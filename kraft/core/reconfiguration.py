"""Changes of the voter set, one voter at a time (KIP-853; Raft's dissertation, chapter 4)."""

from kraft.bounds import VOTERS_MAX
from kraft.core import leading
from kraft.core.control_records import is_valid_voter, voters_entry
from kraft.core.messages import (
    AddVoterRequest,
    Error,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeRequest,
    VoterChangeResponse,
)
from kraft.core.replica import Replica
from kraft.core.roles import Follower, Leader, VoterChange
from kraft.core.voters import VoterSet


def on_voter_change(replica: Replica, leader: Leader, token: int, request: VoterChangeRequest) -> None:
    """Refuse the change with its reason, or accept it. An accepted change may wait until its timeout."""
    refusal = _refusal(replica, leader, request)
    if refusal is not None:
        replica.answer(token, refusal)
        return
    if changed(replica.voters, request) == replica.voters:
        replica.answer(token, VoterChangeResponse(replica.current_leader))
        return
    leader.change = VoterChange(token, request, replica.now_ms + request.timeout_ms)


def append_due_change(replica: Replica, leader: Leader) -> None:
    """Append the entry of the accepted change once that is safe. The new voter set takes effect at once."""
    change = leader.change
    if (change is not None and change.offset is not None) or not may_change(replica, leader):
        return
    if change is None:
        if (mine := replica.outdated_voter()) is not None:
            _write(replica, leader, replica.voters.with_voter(mine))
    elif not isinstance(change.request, AddVoterRequest) or _caught_up(replica, leader, change.request):
        change.offset = replica.log.end_offset
        _write(replica, leader, changed(replica.voters, change.request))


def send_update_voter_request(replica: Replica, follower: Follower) -> None:
    """Send UpdateVoter, if the log has another address of this voter or lacks its directory id (KIP-853).

    A voter with this node id and another directory id is another replica, and is never updated: see ReplicaKey.
    """
    mine = replica.outdated_voter()
    if mine is not None and replica.requests.may_send(follower.leader_id, UpdateVoterRequest, replica.now_ms):
        request = UpdateVoterRequest(mine, replica.config.update_voter_timeout_ms)
        replica.send(follower.leader_id, follower.leader_address, request)


def on_update_response(replica: Replica, source: int) -> None:
    """Wait before the next UpdateVoter, whatever the response: the entry takes some time to be fetched."""
    replica.requests.back_off(source, UpdateVoterRequest, replica.now_ms + replica.config.update_voter_timeout_ms)


def may_change(replica: Replica, leader: Leader) -> bool:
    """True if an entry of this epoch is committed, and no voter change is uncommitted.

    Without the first condition, two leaders could each append a change of the same voter set, and the majorities of the
    two changes need not overlap (Ongaro, "bug in single-server membership changes", 2015).
    """
    return leading.may_commit(leader, replica.high_watermark) and not leading.is_change_uncommitted(replica)


def changed(voters: VoterSet, request: VoterChangeRequest) -> VoterSet:
    if isinstance(request, RemoveVoterRequest):
        return voters.without(request.key.node_id)
    return voters.with_voter(request.voter)


def _write(replica: Replica, leader: Leader, voters: VoterSet) -> None:
    replica.append([voters_entry(replica.log.end_offset, replica.epoch, voters)])
    leader.track_voters(replica.voters, replica.me)
    leading.complete_waiting_fetches(replica, leader)
    leading.advance_high_watermark(replica, leader)


def _refusal(replica: Replica, leader: Leader, request: VoterChangeRequest) -> VoterChangeResponse | None:
    def refuse(error: Error, message: str) -> VoterChangeResponse:
        return VoterChangeResponse(replica.current_leader, error, message)

    if isinstance(request, AddVoterRequest | UpdateVoterRequest) and not is_valid_voter(request.voter):
        return refuse(Error.INVALID_REQUEST, "The voter's id, directory id or address is not valid")
    if leader.change is not None:
        return refuse(Error.REQUEST_TIMED_OUT, "Another change of the voters is under way")
    if isinstance(request, AddVoterRequest):
        if len(replica.voters.voters) >= VOTERS_MAX:
            return refuse(Error.INVALID_REQUEST, f"There are {VOTERS_MAX} voters already")
        if replica.voters.get(request.voter.node_id) is not None:
            return refuse(Error.DUPLICATE_VOTER, f"Node {request.voter.node_id} is a voter already")
        return None
    key = request.key if isinstance(request, RemoveVoterRequest) else request.voter.key
    if not replica.voters.contains(key):
        return refuse(Error.VOTER_NOT_FOUND, f"Node {key.node_id} is not a voter with this directory id")
    if isinstance(request, RemoveVoterRequest) and len(replica.voters.voters) == 1:
        return refuse(Error.INVALID_REQUEST, "The last voter cannot be removed")
    return None


def _caught_up(replica: Replica, leader: Leader, request: AddVoterRequest) -> bool:
    """True if the observer to be added has caught up within the fetch timeout.

    A voter that lags counts towards the majority, but cannot acknowledge new entries yet.
    """
    recently_ms = replica.now_ms - replica.config.fetch_timeout_ms
    observers = [progress for key, progress in leader.observers.items() if key.matches(request.voter.key)]
    return any(progress.caught_up_ms > recently_ms for progress in observers)
