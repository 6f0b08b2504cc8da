"""Requests from unknown peers: they are refused, apart from Fetch and FetchSnapshot.

A peer is unknown if no voter set in the log names it and this replica has never connected to it. New observers are
unknown, because they fetch the log before they are registered in it. A Fetch from an observer acknowledges nothing and
raises no epoch, so serving it requires no trust.

A replica whose log lags may lack the entry that made a candidate or a leader a voter. If it only refused that peer, it
could be locked out of its quorum. A replica without a leader therefore asks a bootstrap server, which its operator
trusts, after an unknown peer has claimed to lead or has asked for a vote. The bootstrap server knows the leader. The
connection also makes the bootstrap server a known peer, in case it is the candidate.
"""

from kraft.core.following import make_fetch_request
from kraft.core.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    Error,
    FetchRequest,
    Request,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kraft.core.replica import Replica
from kraft.core.roles import Follower, Leader


def refuse(replica: Replica, token: int, request: Request) -> None:
    """Refuse a request that only voters may send."""
    match request:
        case VoteRequest():
            replica.answer(token, VoteResponse(replica.current_leader, granted=False, error=Error.VOTER_NOT_FOUND))
            replica.heard_unknown_peer = True
        case BeginEpochRequest():
            replica.answer(token, BeginEpochResponse(replica.current_leader, Error.VOTER_NOT_FOUND))
            replica.heard_unknown_peer = True
        case EndEpochRequest():
            replica.answer(token, EndEpochResponse(replica.current_leader, Error.VOTER_NOT_FOUND))
        case _:
            replica.answer(token, VoterChangeResponse(replica.current_leader, Error.VOTER_NOT_FOUND))


def send_fetch_to_bootstrap_server(replica: Replica) -> None:
    """Send a Fetch to a bootstrap server if an unknown peer claimed to lead or requested a vote, and there is no
    leader.

    A Fetch acknowledges the log up to its offset, so the whole log must be durable. Observers without a leader fetch
    from bootstrap servers in any case: see `following.send_fetch_without_leader`.
    """
    if not replica.heard_unknown_peer:
        return
    if isinstance(replica.state, Leader) or (isinstance(replica.state, Follower) and not replica.state.leader_lost):
        replica.heard_unknown_peer = False
        return
    is_durable = replica.log.durable_end_offset == replica.log.end_offset
    if not replica.is_voter or replica.installing is not None or not is_durable:
        return
    servers = [(-1 - index, address) for index, address in enumerate(replica.config.bootstrap_servers)]
    if any(not replica.requests.may_send(server[0], FetchRequest, replica.now_ms) for server in servers):
        return  # one request at a time, and only after the backoff
    if servers:
        replica.send(*replica.pick(servers), make_fetch_request(replica))
        replica.heard_unknown_peer = False
