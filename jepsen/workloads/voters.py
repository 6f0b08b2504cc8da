"""Changes of the quorum's voters through Kafka's protocol (KIP-853)."""

from broker.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.errors import ErrorCode
from broker.wire.uuids import decode_uuid
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Address, ConnectionLost

CHANGE_TIMEOUT_MS = 2_000
_ADD_VERSION = 1
_REMOVE_VERSION = 0
_LISTENER = "CONTROLLER"


async def add_voter(client: Client, node_id: int, directory_id: str, address: Address) -> None:
    """Until it is a voter."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=CHANGE_TIMEOUT_MS,
        voter_id=node_id,
        voter_directory_id=decode_uuid(directory_id),
        listeners=[Listener(name=_LISTENER, host=address[0], port=address[1])],
    )
    await _until_done(client, request, _ADD_VERSION, ErrorCode.DUPLICATE_VOTER)


async def remove_voter(client: Client, node_id: int, directory_id: str) -> None:
    """Until it is none."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=decode_uuid(directory_id))
    await _until_done(client, request, _REMOVE_VERSION, ErrorCode.VOTER_NOT_FOUND)


async def _until_done(
    client: Client, request: AddRaftVoterRequest | RemoveRaftVoterRequest, version: int, done_before: ErrorCode
) -> None:
    while True:
        operation = client.history.invoke(client.name, type(request).__name__, request.voter_id)
        try:
            async with client.connected() as connection:
                response = await connection.call(request, version)
        except ConnectionLost as error:
            client.history.info(operation, str(error))
        else:
            if response.error_code in (ErrorCode.NONE, done_before):
                client.history.ok(operation, None, life=connection.life)
                return
            client.history.info(operation, ErrorCode(response.error_code).name)
        await client.back_off()
