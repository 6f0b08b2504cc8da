"""What a replica answers to nodes that it does not know: nothing they say has an effect, and they may only read.

A stranger is neither a voter, now or before the latest changes of the voter set, nor a node that this replica has
itself connected to. Observers are strangers at first, since they have to fetch the log before they can be registered in
it. A Fetch acknowledges nothing for an observer and raises no epoch, so it needs no more trust than that.

A replica whose log lags may lack the entry that made a candidate or a leader a voter, and must not be locked out. So a
stranger's claim is refused, but has a replica without a leader ask its bootstrap servers, which its operator trusts.
They know the leader; and a candidate that is one of them is no stranger any more.
"""

from kraft.core.following import fetch_request
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
    """Answer a request that only voters may make."""
    match request:
        case VoteRequest():
            replica.answer(token, VoteResponse(replica.current_leader, granted=False, error=Error.VOTER_NOT_FOUND))
            replica.heard_stranger = True
        case BeginEpochRequest():
            replica.answer(token, BeginEpochResponse(replica.current_leader, Error.VOTER_NOT_FOUND))
            replica.heard_stranger = True
        case EndEpochRequest():
            replica.answer(token, EndEpochResponse(replica.current_leader, Error.VOTER_NOT_FOUND))
        case _:
            replica.answer(token, VoterChangeResponse(replica.current_leader, Error.VOTER_NOT_FOUND))


def look_around(replica: Replica) -> None:
    """Ask a bootstrap server who leads, if a stranger claims to know more than this voter, which has no leader.

    A Fetch acknowledges what it names, so all of the log has to be durable. Observers ask anyway (`seek_leader`).
    """
    if not replica.heard_stranger:
        return
    if isinstance(replica.state, Leader) or (isinstance(replica.state, Follower) and not replica.state.leader_lost):
        replica.heard_stranger = False
        return
    is_durable = replica.log.durable_end_offset == replica.log.end_offset
    if not replica.is_voter or replica.installing is not None or not is_durable:
        return
    servers = [(-1 - index, address) for index, address in enumerate(replica.config.bootstrap_servers)]
    if any(not replica.requests.may_send(server[0], FetchRequest, replica.now_ms) for server in servers):
        return  # one at a time, and after a pause
    if servers:
        replica.send(*replica.pick(servers), fetch_request(replica))
        replica.heard_stranger = False
