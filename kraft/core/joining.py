"""A controller that is not a voter adds itself to the voters (KIP-1186).

The follower decides here that it asks, and for what. The leader decides whether the voter set changes, as for every
other request (`kraft.core.reconfiguration`). The driver sends these requests in Kafka's protocol, in which they are
authorized, and not in the quorum's: a replica that is not a voter may only read there.
"""

from kraft.core import leading
from kraft.core.messages import AddVoterRequest, RemoveVoterRequest
from kraft.core.replica import Replica
from kraft.core.roles import Follower
from kraft.core.voters import Voter

JoinRequest = AddVoterRequest | RemoveVoterRequest


def send_join_request(replica: Replica, follower: Follower) -> None:
    """Send RemoveVoter for the former directory of this node if that is a voter, else AddVoter for this replica.

    Only a replica that has all committed entries of the leader asks, and only while the latest voter set is committed.
    An outdated log names voters that have been removed since, and a set that is not committed may be truncated.
    """
    if not replica.config.auto_join or not is_to_join(replica) or not follower.has_caught_up:
        return
    if replica.installing is not None or leading.is_change_uncommitted(replica):
        return
    request = join_request(replica)
    if replica.requests.may_send(follower.leader_id, type(request), replica.now_ms):
        replica.send(follower.leader_id, follower.leader_address, request)


def is_to_join(replica: Replica) -> bool:
    """True for a replica that is not a voter with its directory, unless it is about to stop."""
    return not replica.is_voter and not replica.is_leaving


def on_join_request_ended(replica: Replica, destination: int, request: JoinRequest) -> None:
    """Wait a fetch timeout before the next request of this type, whatever the outcome, as in Kafka.

    A response does not prove that the change will be committed. The log shows whether it is.
    """
    replica.requests.back_off(destination, type(request), replica.now_ms + replica.config.fetch_timeout_ms)


def join_request(replica: Replica) -> JoinRequest:
    """The leader must not wait for the commit of an AddVoter: the commit may need a Fetch of the new voter."""
    timeout_ms = replica.config.update_voter_timeout_ms
    former = replica.voters.get(replica.me.node_id)
    if former is not None:
        return RemoveVoterRequest(former.key, timeout_ms)
    return AddVoterRequest(Voter(replica.me, replica.config.my_address), timeout_ms, ack_when_committed=False)
