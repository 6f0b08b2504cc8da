"""Changes of the voter set: one voter at a time, through the log (KIP-853; Raft's dissertation, chapter 4)."""

from kraft.bounds import VOTERS_MAX
from kraft.core import leading
from kraft.core.control import is_valid_voter, voters_entry
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
    """Accept the change, or say at once why it cannot be; what it has to wait for, it waits for until its timeout."""
    refusal = _refusal(replica, leader, request)
    if refusal is not None:
        replica.answer(token, refusal)
        return
    if changed(replica.voters, request) == replica.voters:
        replica.answer(token, VoterChangeResponse(replica.current_leader))
        return
    leader.change = VoterChange(token, request, replica.now_ms + request.timeout_ms)


def proceed(replica: Replica, leader: Leader) -> None:
    """Write the change to the log as soon as it is safe; from then on the new voters count."""
    change = leader.change
    if (change is not None and change.offset is not None) or not may_change(replica, leader):
        return
    if change is None:
        if (mine := replica.outdated_voter()) is not None:
            _write(replica, leader, replica.voters.with_voter(mine))
    elif not isinstance(change.request, AddVoterRequest) or _caught_up(replica, leader, change.request):
        change.offset = replica.log.end_offset
        _write(replica, leader, changed(replica.voters, change.request))


def report_myself(replica: Replica, follower: Follower) -> None:
    """Tell the leader where this voter is to be found, and on which disk it is, where the log says otherwise (KIP-853).

    A voter that the log names with another directory id is not this one, and must never become it: see ReplicaKey.
    """
    mine = replica.outdated_voter()
    if mine is not None and replica.requests.may_send(follower.leader_id, UpdateVoterRequest, replica.now_ms):
        request = UpdateVoterRequest(mine, replica.config.update_voter_timeout_ms)
        replica.send(follower.leader_id, follower.leader_address, request)


def on_update_response(replica: Replica, source: int) -> None:
    """Whatever the answer is: the entry is what counts, and it takes a while to arrive."""
    replica.requests.back_off(source, UpdateVoterRequest, replica.now_ms + replica.config.update_voter_timeout_ms)


def may_change(replica: Replica, leader: Leader) -> bool:
    """Not before an entry of this epoch is committed, nor while another change is not.

    Without the first, two leaders could each make a change on top of the same set, and their majorities need not meet
    (Ongaro, "bug in single-server membership changes", 2015).
    """
    return leading.may_commit(leader, replica.high_watermark) and not leading.is_change_uncommitted(replica)


def changed(voters: VoterSet, request: VoterChangeRequest) -> VoterSet:
    if isinstance(request, RemoveVoterRequest):
        return voters.without(request.key.node_id)
    return voters.with_voter(request.voter)


def _write(replica: Replica, leader: Leader, voters: VoterSet) -> None:
    replica.append([voters_entry(replica.log.end_offset, replica.epoch, voters)])
    leader.follow(replica.voters, replica.me)
    leading.release_news(replica, leader)
    leading.advance(replica, leader)


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
    """A voter that has to catch up first would take part in majorities without being able to acknowledge."""
    recently_ms = replica.now_ms - replica.config.fetch_timeout_ms
    observers = [progress for key, progress in leader.observers.items() if key.matches(request.voter.key)]
    return any(progress.caught_up_ms > recently_ms for progress in observers)
