"""Changes of the quorum's voters (KIP-853), made by the client library."""

from collections.abc import Awaitable, Callable

from broker.client import Admin, ClientError, KafkaError, RaftEndpoint
from broker.wire.errors import ErrorCode
from broker.wire.uuids import decode_uuid
from jepsen.workloads.administration import open_admin
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Address

_LISTENER = "CONTROLLER"


async def add_voter(client: Client, node_id: int, directory_id: str, address: Address) -> None:
    """Repeat the request until the node is a voter."""
    endpoints = [RaftEndpoint(_LISTENER, *address)]

    async def add(admin: Admin) -> None:
        await admin.add_raft_voter(node_id, decode_uuid(directory_id), endpoints)

    await _repeat(client, "add-voter", node_id, add, done=ErrorCode.DUPLICATE_VOTER)


async def remove_voter(client: Client, node_id: int, directory_id: str) -> None:
    """Repeat the request until the node is not a voter."""

    async def remove(admin: Admin) -> None:
        await admin.remove_raft_voter(node_id, decode_uuid(directory_id))

    await _repeat(client, "remove-voter", node_id, remove, done=ErrorCode.VOTER_NOT_FOUND)


async def _repeat(
    client: Client, function: str, node_id: int, change: Callable[[Admin], Awaitable[None]], *, done: ErrorCode
) -> None:
    """Call `change` until it succeeds, or fails with `done` because an earlier attempt took effect."""
    while True:
        operation = client.history.invoke(client.name, function, node_id)
        try:
            async with open_admin(client) as admin:
                await change(admin)
        except (ClientError, KafkaError) as error:
            if not (isinstance(error, KafkaError) and error.code is done):
                client.history.info(operation, str(error))
                await client.back_off()
                continue
        client.history.ok(operation, None)
        return
