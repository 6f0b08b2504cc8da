"""Elections: votes, pre-votes (KIP-996), and the epoch and leader that every message carries."""

from kraft.core import leading
from kraft.core.effects import RefusedEpoch
from kraft.core.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    CurrentLeader,
    EndEpochRequest,
    EndEpochResponse,
    Error,
    VoteRequest,
    VoteResponse,
)
from kraft.core.plausible_epochs import is_plausible
from kraft.core.quorum import Outcome, outcome
from kraft.core.replica import Replica
from kraft.core.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraft.core.transitions import Cause

# How often, per election timeout, a pre-vote is requested again from a voter that refused it.
PRE_VOTES_IN_ELECTION_TIMEOUT = 10


def enter_higher_epoch(replica: Replica, source: int, epoch: int) -> bool:
    """Become unattached in `epoch`, sent by replica `source`, if it is higher (Raft's paper, section 5.1).

    Returns False, and changes nothing, if the epoch is not plausible.
    """
    if epoch <= replica.epoch:
        return True
    if not is_plausible(epoch, replica.wall_s()):
        replica.effects.append(RefusedEpoch(source, replica.epoch, epoch))
        return False
    former = replica.state
    replica.enter_epoch(epoch)
    replica.become(Cause.HIGHER_EPOCH, Unattached(replica.now_ms + replica.random_election_timeout_ms()))
    leading.fail_pending_requests(replica, former)
    return True


def update_leader(replica: Replica, source: int, current: CurrentLeader) -> None:
    """Follow the leader that a message names, if this replica has none.

    A prospective replica has just lost its leader. It follows that leader again only if the leader itself sent this.
    """
    if not enter_higher_epoch(replica, source, current.epoch):
        return
    if current.epoch != replica.epoch or current.leader_id in (None, replica.me.node_id):
        return
    assert current.leader_id is not None
    state = replica.state
    if isinstance(state, Prospective) and state.leader is not None and source != current.leader_id:
        return
    if isinstance(state, Unattached | Prospective | Candidate):
        follow(replica, current.leader_id, current.leader_address)


def follow(replica: Replica, leader_id: int, leader_address: str) -> None:
    voter = replica.voters.get(leader_id)
    address = leader_address or (voter.address if voter is not None else "")
    deadline_ms = replica.now_ms + replica.random_fetch_timeout_ms()
    replica.become(Cause.LEADER_FOUND, Follower(leader_id, address, deadline_ms))


def on_vote(replica: Replica, token: int, request: VoteRequest) -> None:
    if not request.voter.matches(replica.me):
        replica.answer(token, VoteResponse(replica.current_leader, granted=False, error=Error.INVALID_VOTER_KEY))
        return
    if request.epoch < replica.epoch:
        replica.answer(token, VoteResponse(replica.current_leader, granted=False, error=Error.FENCED_LEADER_EPOCH))
        return
    if not enter_higher_epoch(replica, request.candidate.node_id, request.epoch):
        replica.answer(token, VoteResponse(replica.current_leader, granted=False, error=Error.UNKNOWN_LEADER_EPOCH))
        return
    granted = can_grant_pre_vote(replica, request) if request.pre_vote else can_grant_vote(replica, request)
    if granted and request.pre_vote:
        _postpone_election(replica)
    if granted and not request.pre_vote and replica.election.voted_for is None:
        replica.enter_epoch(request.epoch, request.candidate)
        if isinstance(replica.state, Unattached):
            replica.state.deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.answer(token, VoteResponse(replica.current_leader, granted))


def can_grant_vote(replica: Replica, request: VoteRequest) -> bool:
    """True for the first candidate of a leaderless epoch whose log is as up to date (Raft's paper, 5.2 and 5.4.1).

    A replica votes even if its own log does not name it as a voter: the log may lack the entry that added it (KIP-853).
    """
    state = replica.state
    leaderless = isinstance(state, Unattached) or (isinstance(state, Prospective) and state.leader is None)
    if not leaderless or replica.election.voted_for not in (None, request.candidate):
        return False
    return replica.log.is_candidate_up_to_date(request.log_end)


def can_grant_pre_vote(replica: Replica, request: VoteRequest) -> bool:
    """True if this replica would vote for the candidate in the next epoch (KIP-996).

    False while this replica is in contact with a leader, so that a partitioned voter cannot depose that leader. False
    while this replica is a candidate. Between two prospective replicas with equal logs, the one with the lower id gets
    the pre-vote. If both got it, they would split the votes, which is the more likely the slower messages are.
    """
    state = replica.state
    if isinstance(state, Leader) or (isinstance(state, Candidate) and not state.lost):
        return False
    if isinstance(state, Prospective) and replica.log.end == request.log_end:
        return request.candidate.node_id < replica.me.node_id
    if isinstance(state, Follower) and not state.leader_lost:
        silent_ms = replica.now_ms - state.heard_ms
        if silent_ms < replica.config.fetch_timeout_ms:
            return False
    return replica.log.is_candidate_up_to_date(request.log_end)


def _postpone_election(replica: Replica) -> None:
    """Delay this replica's own election after it has granted a pre-vote, so that it does not split the votes."""
    state = replica.state
    if isinstance(state, Follower | Unattached):
        pause_ms = replica.random_election_timeout_ms() / PRE_VOTES_IN_ELECTION_TIMEOUT
        state.deadline_ms = max(state.deadline_ms, replica.now_ms + pause_ms)


def on_vote_response(replica: Replica, source: int, request: VoteRequest, response: VoteResponse) -> None:
    state = replica.state
    if not isinstance(state, Prospective | Candidate) or isinstance(state, Prospective) is not request.pre_vote:
        return
    state.votes[source] = response.granted
    if isinstance(state, Prospective):
        # A voter that refused because it is in contact with a leader may lose that leader soon, so it is asked again.
        pause_ms = replica.config.election_timeout_ms / PRE_VOTES_IN_ELECTION_TIMEOUT
        replica.requests.back_off(source, VoteRequest, replica.now_ms + pause_ms)
    _check_votes(replica)


def on_vote_failed(replica: Replica, destination: int) -> None:
    state = replica.state
    if isinstance(state, Candidate):
        state.unreachable[destination] = True
        _check_votes(replica)


def on_begin_epoch(replica: Replica, token: int, request: BeginEpochRequest) -> None:
    """Follow the leader, even if the request is for another directory id of this node: only the response differs."""
    if request.epoch < replica.epoch:
        replica.answer(token, BeginEpochResponse(replica.current_leader, Error.FENCED_LEADER_EPOCH))
        return
    update_leader(replica, request.leader_id, CurrentLeader(request.epoch, request.leader_id, request.leader_address))
    if request.epoch > replica.epoch:
        replica.answer(token, BeginEpochResponse(replica.current_leader, Error.UNKNOWN_LEADER_EPOCH))
        return
    state = replica.state
    if isinstance(state, Follower) and state.leader_id == request.leader_id:
        state.heard_ms = replica.now_ms
    error = Error.NONE if request.voter.matches(replica.me) else Error.INVALID_VOTER_KEY
    replica.answer(token, BeginEpochResponse(replica.current_leader, error))


def on_end_epoch(replica: Replica, token: int, request: EndEpochRequest) -> None:
    """KIP-595: the first preferred successor starts an election at once, without a pre-vote; the others wait for it."""
    if request.epoch < replica.epoch:
        replica.answer(token, EndEpochResponse(replica.current_leader, Error.FENCED_LEADER_EPOCH))
        return
    if not enter_higher_epoch(replica, request.leader_id, request.epoch):
        replica.answer(token, EndEpochResponse(replica.current_leader, Error.UNKNOWN_LEADER_EPOCH))
        return
    replica.answer(token, EndEpochResponse(replica.current_leader))
    state = replica.state
    if not isinstance(state, Follower) or state.leader_id != request.leader_id:
        return
    state.leader_lost = True
    successors = request.preferred_successors
    rank = successors.index(replica.me.node_id) if replica.me.node_id in successors else len(successors)
    if rank == 0 and replica.is_electable:
        start_election(replica, Cause.HANDED_OVER)
    else:
        pause_ms = min(replica.config.election_backoff_max_ms, replica.config.retry_backoff_ms * 2.0 ** (rank + 1))
        state.deadline_ms = min(state.deadline_ms, replica.now_ms + pause_ms + replica.election_backoff_ms(rank))


def start_pre_vote(replica: Replica, cause: Cause) -> None:
    leader = replica.current_leader if isinstance(replica.state, Follower) else None
    deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.become(cause, Prospective(deadline_ms, leader, {replica.me.node_id: True}))
    _check_votes(replica)


def start_election(replica: Replica, cause: Cause) -> None:
    """Enter the next epoch as a candidate and vote for this replica (Raft's paper, section 5.2)."""
    replica.enter_epoch(replica.epoch + 1, replica.me)
    deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.become(cause, Candidate(deadline_ms, {replica.me.node_id: True}))
    _check_votes(replica)


def send_vote_requests(replica: Replica, state: Prospective | Candidate) -> None:
    """Request votes from the voters that have not responded, and pre-votes also from those that refused."""
    for voter in replica.other_voters():
        final = isinstance(state, Candidate) and voter.node_id in state.votes
        if (
            final
            or state.votes.get(voter.node_id)
            or not replica.requests.may_send(voter.node_id, VoteRequest, replica.now_ms)
        ):
            continue
        pre_vote = isinstance(state, Prospective)
        request = VoteRequest(replica.epoch, replica.me, voter.key, replica.log.end, pre_vote)
        replica.send(voter.node_id, voter.address, request)


def send_end_epoch_requests(replica: Replica, state: Resigned) -> None:
    """Send EndEpoch to the voters that have not acknowledged the resignation."""
    for voter in replica.other_voters():
        if voter.node_id not in state.acknowledged and replica.requests.may_send(
            voter.node_id, EndEpochRequest, replica.now_ms
        ):
            request = EndEpochRequest(replica.epoch, replica.me.node_id, state.preferred_successors)
            replica.send(voter.node_id, voter.address, request)


def leave(replica: Replica) -> None:
    """Stop leading and standing for election before the node stops. The replica still votes for others."""
    replica.is_leaving = True
    state = replica.state
    if isinstance(state, Leader):
        leading.resign(replica, state)
    elif isinstance(state, Prospective):
        _give_up_pre_vote(replica, state)
    elif isinstance(state, Candidate):
        replica.become(Cause.RESIGNATION, Unattached(replica.now_ms + replica.random_election_timeout_ms()))


def expire(replica: Replica) -> None:
    """Handle the deadline of a role other than leader."""
    state = replica.state
    if isinstance(state, Prospective):
        _give_up_pre_vote(replica, state)
    elif replica.is_electable:
        cause = Cause.ELECTION_TIMEOUT
        if isinstance(state, Follower):
            cause = Cause.LEADER_LOST if state.leader_lost else Cause.FETCH_TIMEOUT
        start_pre_vote(replica, cause)
    elif isinstance(state, Follower | Resigned):
        replica.become(Cause.OUT_OF_TOUCH, Unattached(replica.now_ms + replica.random_election_timeout_ms()))
    else:
        assert isinstance(state, Unattached), f"{state.role.name} without being electable"
        state.deadline_ms = replica.now_ms + replica.random_election_timeout_ms()


def _check_votes(replica: Replica) -> None:
    state = replica.state
    assert isinstance(state, Prospective | Candidate), f"{state.role.name} collects no votes"
    result = outcome(replica.voters.ids, state.votes)
    if isinstance(state, Prospective):
        if result is Outcome.WON:
            start_election(replica, Cause.PRE_VOTE_WON)
        elif result is Outcome.LOST:
            replica.lost_elections += 1
            _give_up_pre_vote(replica, state)
    elif result is Outcome.WON:
        leading.start_leading(replica, sorted(node_id for node_id, granted in state.votes.items() if granted))
    elif result is Outcome.LOST:
        _back_off(replica, state)
    elif all(voter.node_id in state.votes or voter.node_id in state.unreachable for voter in replica.other_voters()):
        # For example, two voters of three are alive and both voted for themselves. The vote of the third cannot arrive,
        # so waiting for it would cost a whole election timeout.
        _back_off(replica, state)


def _back_off(replica: Replica, state: Candidate) -> None:
    """Start the next election after a short random delay, so that it does not coincide with the rival's."""
    if not state.lost:
        state.lost = True
        replica.lost_elections += 1
        state.deadline_ms = min(state.deadline_ms, replica.now_ms + replica.election_backoff_ms(replica.lost_elections))


def _give_up_pre_vote(replica: Replica, state: Prospective) -> None:
    """Follow the previous leader again, because other voters may still be in contact with it.

    Without a previous leader, become unattached.
    """
    if state.leader is not None and state.leader.leader_id is not None:
        follow(replica, state.leader.leader_id, state.leader.leader_address)
    else:
        replica.become(Cause.PRE_VOTE_LOST, Unattached(replica.now_ms + replica.random_election_timeout_ms()))
