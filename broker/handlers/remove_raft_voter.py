"""RemoveRaftVoter (key 81): remove a voter from the quorum; a live one stays as an observer (KIP-853)."""

from typing import Final

from broker.handlers.response_errors import message_of
from broker.handlers.voters import change_voters, check_cluster, quorum_code_of, replica_key
from broker.server.context import ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from broker.wire.errors import KafkaError
from kraft.core.messages import RemoveVoterRequest
from metadata.protocol import AclOperation

# The request has no timeout. This one is long enough for an election, and shorter than a client's request timeout.
_TIMEOUT_MS: Final = 10_000


def remove_raft_voter(context: ControllerContext, request: RemoveRaftVoterRequest) -> Work[RemoveRaftVoterResponse]:
    check_cluster(context, request.cluster_id)
    key = replica_key(request.voter_id, request.voter_directory_id)
    outcome = yield from change_voters(context, RemoveVoterRequest(key, _TIMEOUT_MS))
    return RemoveRaftVoterResponse(error_code=outcome.code, error_message=outcome.message)


def refused(context: ControllerContext, request: RemoveRaftVoterRequest, error: KafkaError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=quorum_code_of(error), error_message=message_of(error))


HANDLER = Handler(
    RemoveRaftVoterRequest,
    remove_raft_voter,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=refused,
    operation=AclOperation.ALTER,
    forwarded=True,
)
