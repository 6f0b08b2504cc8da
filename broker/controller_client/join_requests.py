"""Sends the requests by which this controller adds itself to the voters of the quorum (KIP-1186).

They are AddRaftVoter and RemoveRaftVoter of Kafka's protocol, which need the right to ALTER the cluster, as in Kafka.
"""

from typing import Final

from broker.controller_client.channel import ControllerChannel
from broker.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import decode_uuid
from kraft.core.joining import JoinRequest
from kraft.core.messages import AddVoterRequest, CurrentLeader, Error, RemoveVoterRequest, VoterChangeResponse
from kraft.env import Tracer
from metadata.controller import ControllerRegistration

_ADD_VERSION: Final = 1
_REMOVE_VERSION: Final = 0
# Longer than the quorum waits for the response (`kraft.rpc.Links`).
_TIMEOUT_MS: Final = 30_000
# With DUPLICATE_VOTER and VOTER_NOT_FOUND, an earlier request has made the change.
_NO_REFUSALS: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)


class JoinRequests:
    """`registration` has the listeners at which other controllers reach this one."""

    def __init__(
        self, channel: ControllerChannel, cluster_id: str, registration: ControllerRegistration, trace: Tracer
    ) -> None:
        self._channel = channel
        self._cluster_id = cluster_id
        self._node_id = registration.controller_id
        self._listeners = [Listener(name=each.name, host=each.host, port=each.port) for each in registration.end_points]
        self._trace = trace
        self._refusal = ""

    async def send(self, leader_address: str, request: JoinRequest) -> VoterChangeResponse | None:
        """Send a request to the active controller, wherever it is. Returns None if it does not respond."""
        try:
            if isinstance(request, AddVoterRequest):
                response = await self._channel.call(self._add(request), _ADD_VERSION, timeout_ms=_TIMEOUT_MS)
            else:
                response = await self._channel.call(self._remove(request), _REMOVE_VERSION, timeout_ms=_TIMEOUT_MS)
        except KafkaError as error:
            self._report(error.code, error.message)
            return None
        code, message = ErrorCode.of(response.error_code), response.error_message or ""
        self._report(code, message)
        known = Error[code.name] if code.name in Error.__members__ else Error.INVALID_REQUEST
        return VoterChangeResponse(CurrentLeader(0), known, message)

    def _add(self, request: AddVoterRequest) -> AddRaftVoterRequest:
        key = request.voter.key
        return AddRaftVoterRequest(
            cluster_id=self._cluster_id,
            timeout_ms=request.timeout_ms,
            voter_id=key.node_id,
            voter_directory_id=decode_uuid(key.directory_id),
            listeners=self._listeners,
            ack_when_committed=request.ack_when_committed,
        )

    def _remove(self, request: RemoveVoterRequest) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(
            cluster_id=self._cluster_id,
            voter_id=request.key.node_id,
            voter_directory_id=decode_uuid(request.key.directory_id),
        )

    def _report(self, code: ErrorCode, message: str) -> None:
        """Report why this controller does not become a voter, once until the reason changes."""
        refusal = "" if code in _NO_REFUSALS else f"{code.name}: {message}" if message else code.name
        if refusal and refusal != self._refusal:
            self._trace("join_refused", node=self._node_id, reason=refusal)
        self._refusal = refusal
