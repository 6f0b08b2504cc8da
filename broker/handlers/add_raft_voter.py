"""AddRaftVoter (key 80): make a controller that is an observer of the metadata log a voter (KIP-853).

The controller has to catch up within the timeout. The response is sent after the change is committed, or, if version 1
asks for that, as soon as it is in the log of the active controller (KIP-1186).
"""

from broker.handlers.response_errors import message_of
from broker.handlers.voters import change_voters, check_cluster, controller_listener, quorum_code_of, replica_key
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from broker.wire.errors import ErrorCode, KafkaError
from kraft.core import Voter
from kraft.core.messages import AddVoterRequest
from metadata.protocol import AclOperation


def add_raft_voter(context: ControllerContext, request: AddRaftVoterRequest) -> Work[AddRaftVoterResponse]:
    check_cluster(context, request.cluster_id)
    key = replica_key(request.voter_id, request.voter_directory_id)
    listener = controller_listener(context)
    address = next((f"{each.host}:{each.port}" for each in request.listeners if each.name == listener), None)
    if address is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The new voter has to be reached through listener {listener}.")
    voter = Voter(key, address)
    change = AddVoterRequest(voter, max(request.timeout_ms, 0), ack_when_committed=request.ack_when_committed)
    outcome = yield from change_voters(context, change)
    return AddRaftVoterResponse(error_code=outcome.code, error_message=outcome.message)


def refused(context: ControllerContext, request: AddRaftVoterRequest, error: KafkaError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=quorum_code_of(error), error_message=message_of(error))


HANDLER = Handler(
    AddRaftVoterRequest,
    add_raft_voter,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refused,
    operation=AclOperation.ALTER,
    forwarded=True,
)
