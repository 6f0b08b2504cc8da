"""Changes of the voter set, one voter at a time (KIP-853; Raft's dissertation, chapter 4)."""

from kraft.bounds import VOTERS_MAX
from kraft.core import leading
from kraft.core.control_records import is_valid_voter, voters_entry
from kraft.core.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    BeginEpochResponse,
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
    elif not isinstance(change.request, AddVoterRequest) or (
        change.is_reachable and _caught_up(replica, leader, change.request)
    ):
        change.offset = replica.log.end_offset
        _write(replica, leader, changed(replica.voters, change.request))
        if isinstance(change.request, AddVoterRequest) and not change.request.ack_when_committed:
            _end_change(replica, leader, change)


def announce_to_new_voter(replica: Replica, leader: Leader) -> None:
    """Send BeginEpoch to the replica that is to be added, at the address that the request gives for it (KIP-853).

    The connection shows that a node with this id is there that belongs to the cluster and speaks the quorum's protocol,
    and the response that the node has this directory. A voter at another address would count towards the majority, but
    no candidate could ask it for its vote. Kafka sends ApiVersions.
    """
    change = leader.change
    if change is None or not isinstance(change.request, AddVoterRequest) or change.is_reachable:
        return
    voter = change.request.voter
    if replica.requests.may_send(voter.node_id, BeginEpochRequest, replica.now_ms):
        change.announcement = BeginEpochRequest(replica.epoch, replica.me.node_id, replica.config.my_address, voter.key)
        replica.send(voter.node_id, voter.address, change.announcement)


def on_begin_epoch_response(replica: Replica, request: BeginEpochRequest, response: BeginEpochResponse) -> None:
    """Let the new voter be added, or refuse the change if the replica at its address has another directory."""
    leader = replica.state
    if isinstance(leader, Leader) and leader.change is not None and leader.change.announcement is request:
        leader.change.is_reachable = True
        if response.error is Error.INVALID_VOTER_KEY:
            message = f"Node {request.voter.node_id} has another directory id"
            _end_change(replica, leader, leader.change, Error.INVALID_REQUEST, message)


def on_begin_epoch_failed(replica: Replica, request: BeginEpochRequest) -> None:
    """Refuse to add a voter that does not answer at its address."""
    leader = replica.state
    if isinstance(leader, Leader) and leader.change is not None and leader.change.announcement is request:
        message = f"Node {request.voter.node_id} does not answer at the address that was given for it"
        _end_change(replica, leader, leader.change, Error.REQUEST_TIMED_OUT, message)


def _end_change(
    replica: Replica, leader: Leader, change: VoterChange, error: Error = Error.NONE, message: str = ""
) -> None:
    leader.change = None
    replica.answer(change.token, VoterChangeResponse(replica.current_leader, error, message))


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
