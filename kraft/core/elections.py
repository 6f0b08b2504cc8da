"""How a leader is found: votes, pre-votes (KIP-996), and the news of epochs and leaders that every message carries."""

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

# How often a voter that would not vote is asked again, within one election timeout.
PRE_VOTES_IN_ELECTION_TIMEOUT = 10


def see_epoch(replica: Replica, source: int, epoch: int) -> bool:
    """Enter a higher epoch that replica `source` told of, and leave the role (Raft's paper, section 5.1).

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
    leading.abandon(replica, former)
    return True


def learn(replica: Replica, source: int, current: CurrentLeader) -> None:
    """Take the news that a message carries. Word of a leader that was just given up only counts from itself."""
    if not see_epoch(replica, source, current.epoch):
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
    if not see_epoch(replica, request.candidate.node_id, request.epoch):
        replica.answer(token, VoteResponse(replica.current_leader, granted=False, error=Error.UNKNOWN_LEADER_EPOCH))
        return
    granted = would_vote(replica, request) if request.pre_vote else may_vote(replica, request)
    if granted and request.pre_vote:
        _give_way(replica)
    if granted and not request.pre_vote and replica.election.voted_for is None:
        replica.enter_epoch(request.epoch, request.candidate)
        if isinstance(replica.state, Unattached):
            replica.state.deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.answer(token, VoteResponse(replica.current_leader, granted))


def may_vote(replica: Replica, request: VoteRequest) -> bool:
    """One vote in an epoch, while it has no leader, to one whose log is as up to date (Raft, 5.2 and 5.4.1).

    Also from a replica that does not know itself as a voter: its log may lack the entry that made it one (KIP-853).
    """
    state = replica.state
    leaderless = isinstance(state, Unattached) or (isinstance(state, Prospective) and state.leader is None)
    if not leaderless or replica.election.voted_for not in (None, request.candidate):
        return False
    return replica.log.no_newer_than(request.log_end)


def would_vote(replica: Replica, request: VoteRequest) -> bool:
    """KIP-996: not while a leader is known to be alive, so that who lost touch cannot depose it.

    Nor while this replica may be elected itself; of two that ask each other, the one with the lower id goes first. Were
    both encouraged, they would split the votes, and the slower messages are, the more often.
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
    return replica.log.no_newer_than(request.log_end)


def _give_way(replica: Replica) -> None:
    """Who was just encouraged has the time to be elected before this replica stands, which would take votes from it."""
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
        # Who still hears the leader may soon not: the same question is worth asking again.
        pause_ms = replica.config.election_timeout_ms / PRE_VOTES_IN_ELECTION_TIMEOUT
        replica.requests.back_off(source, VoteRequest, replica.now_ms + pause_ms)
    _decide(replica)


def on_vote_failed(replica: Replica, destination: int) -> None:
    state = replica.state
    if isinstance(state, Candidate):
        state.unreachable[destination] = True
        _decide(replica)


def on_begin_epoch(replica: Replica, token: int, request: BeginEpochRequest) -> None:
    """The leader is worth knowing also for one that came back with another disk than the voter that is meant."""
    if request.epoch < replica.epoch:
        replica.answer(token, BeginEpochResponse(replica.current_leader, Error.FENCED_LEADER_EPOCH))
        return
    learn(replica, request.leader_id, CurrentLeader(request.epoch, request.leader_id, request.leader_address))
    if request.epoch > replica.epoch:
        replica.answer(token, BeginEpochResponse(replica.current_leader, Error.UNKNOWN_LEADER_EPOCH))
        return
    state = replica.state
    if isinstance(state, Follower) and state.leader_id == request.leader_id:
        state.heard_ms = replica.now_ms
    error = Error.NONE if request.voter.matches(replica.me) else Error.INVALID_VOTER_KEY
    replica.answer(token, BeginEpochResponse(replica.current_leader, error))


def on_end_epoch(replica: Replica, token: int, request: EndEpochRequest) -> None:
    """KIP-595: the first of the preferred successors stands at once, without a pre-vote; the others give it time."""
    if request.epoch < replica.epoch:
        replica.answer(token, EndEpochResponse(replica.current_leader, Error.FENCED_LEADER_EPOCH))
        return
    if not see_epoch(replica, request.leader_id, request.epoch):
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
    _decide(replica)


def start_election(replica: Replica, cause: Cause) -> None:
    """Vote for itself in a new epoch (Raft's paper, section 5.2)."""
    replica.enter_epoch(replica.epoch + 1, replica.me)
    deadline_ms = replica.now_ms + replica.random_election_timeout_ms()
    replica.become(cause, Candidate(deadline_ms, {replica.me.node_id: True}))
    _decide(replica)


def canvass(replica: Replica, state: Prospective | Candidate) -> None:
    """Ask those voters who have not answered; those who would not vote, again."""
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


def say_goodbye(replica: Replica, state: Resigned) -> None:
    """Tell those voters who have not heard that the epoch has no leader any more."""
    for voter in replica.other_voters():
        if voter.node_id not in state.acknowledged and replica.requests.may_send(
            voter.node_id, EndEpochRequest, replica.now_ms
        ):
            request = EndEpochRequest(replica.epoch, replica.me.node_id, state.preferred_successors)
            replica.send(voter.node_id, voter.address, request)


def leave(replica: Replica) -> None:
    """Whoever is about to stop leads no more, and only votes for others."""
    replica.is_leaving = True
    state = replica.state
    if isinstance(state, Leader):
        leading.resign(replica, state)
    elif isinstance(state, Prospective):
        _give_up_pre_vote(replica, state)
    elif isinstance(state, Candidate):
        replica.become(Cause.RESIGNATION, Unattached(replica.now_ms + replica.random_election_timeout_ms()))


def expire(replica: Replica) -> None:
    """The role's deadline has passed."""
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


def _decide(replica: Replica) -> None:
    state = replica.state
    assert isinstance(state, Prospective | Candidate), f"votes are of no use to {state.role.name}"
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
        _lose(replica, state)
    elif all(voter.node_id in state.votes or voter.node_id in state.unreachable for voter in replica.other_voters()):
        # Two survivors of three that voted for themselves: to wait for the dead would take a whole election timeout.
        _lose(replica, state)


def _lose(replica: Replica, state: Candidate) -> None:
    """Try again soon, at a time that the rival will not choose."""
    if not state.lost:
        state.lost = True
        replica.lost_elections += 1
        state.deadline_ms = min(state.deadline_ms, replica.now_ms + replica.election_backoff_ms(replica.lost_elections))


def _give_up_pre_vote(replica: Replica, state: Prospective) -> None:
    """The leader that others still hear is worth another try; without one, wait to be told of one."""
    if state.leader is not None and state.leader.leader_id is not None:
        follow(replica, state.leader.leader_id, state.leader.leader_address)
    else:
        replica.become(Cause.PRE_VOTE_LOST, Unattached(replica.now_ms + replica.random_election_timeout_ms()))
