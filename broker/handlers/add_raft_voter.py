"""AddRaftVoter (key 80): make a controller that is an observer of the metadata log a voter (KIP-853).

The controller has to catch up within the timeout. The response is always sent after the change is committed, although
version 1 can ask for an earlier one (KIP-1186).
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
    outcome = yield from change_voters(context, AddVoterRequest(Voter(key, address), max(request.timeout_ms, 0)))
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
