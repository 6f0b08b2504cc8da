"""Administrative requests about topics and the voters of the quorum (KIP-853), made with the client library.

Their effects show in the metadata.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from broker.client import (
    Admin,
    ClientError,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    KafkaError,
    RaftEndpoint,
    TopicPartition,
    TopicPartitionReplica,
)
from broker.wire.errors import ErrorCode
from broker.wire.uuids import decode_uuid
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Address

_LISTENER = "CONTROLLER"


# The timeout of a call with all its retries, and of a single request.
_TIMEOUT_MS: Final = 3_000
_REQUEST_TIMEOUT_MS: Final = 2_000


def open_admin(client: Client) -> Admin:
    """An Admin that runs as `client`, with its servers, clock and random numbers."""
    return Admin(
        client.bootstrap_servers,
        config=client.configs,
        client_id=client.name,
        environment=client.environment,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        default_api_timeout_ms=_TIMEOUT_MS,
    )


async def elect_preferred_leaders(client: Client, topic: str | None, partition: int = 0) -> None:
    """Elect the preferred leader of one partition; without a topic, of all partitions."""
    partitions = None if topic is None else [TopicPartition(topic, partition)]
    await _attempt(client, "elect-leaders", lambda admin: admin.elect_leaders(partitions))


async def reassign(client: Client, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
    """Move a partition to the brokers `replicas`; None cancels its reassignment."""
    moves = {TopicPartition(topic, partition): replicas}
    await _attempt(client, "reassign", lambda admin: admin.alter_partition_reassignments(moves))


async def move_log_dir(client: Client, topic: str, partition: int, broker_id: int, path: str) -> None:
    """Move a broker's replica to its log directory at `path` (KIP-113)."""
    replicas = {TopicPartitionReplica(topic, partition, broker_id): path}
    await _attempt(client, "move-log-dir", lambda admin: admin.alter_replica_log_dirs(replicas))


async def configure(client: Client, topic: str, name: str, value: str) -> None:
    """Set one of a topic's configs."""
    changes = {ConfigResource(ConfigResourceType.TOPIC, topic): [ConfigChange(name, value)]}
    await _attempt(client, "configure", lambda admin: admin.incremental_alter_configs(changes))


async def is_anything_moving(client: Client) -> bool:
    """True if a reassignment is under way, according to the first response."""
    while True:
        try:
            async with open_admin(client) as admin:
                return bool(await admin.list_partition_reassignments())
        except (ClientError, KafkaError):
            await client.back_off()


async def _attempt(client: Client, function: str, call: Callable[[Admin], Awaitable[object]]) -> None:
    operation = client.history.invoke(client.name, function, None)
    try:
        async with open_admin(client) as admin:
            await call(admin)
    except (ClientError, KafkaError) as error:
        client.history.info(operation, str(error))
    else:
        client.history.ok(operation, None)


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
