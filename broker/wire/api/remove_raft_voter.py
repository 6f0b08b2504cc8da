"""RemoveRaftVoter (key 81): remove a voter from the quorum (KIP-853). Always flexible."""

from broker.wire.schema import field, request, response
from broker.wire.uuids import ZERO_UUID


@request(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """With `cluster_id` null the cluster is not checked. Voter and directory have to be named exactly."""

    cluster_id: str | None = field("string", "0+", default="", nullable="0+")
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "0+", default=ZERO_UUID)


@response(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
