"""Administrative requests about topics, made with the client library. Their effects show in the metadata."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from broker.client import (
    Admin,
    ClientError,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    KafkaError,
    TopicPartition,
)
from jepsen.workloads.client import Client

# The timeout of a call with all its retries, and of a single request.
_TIMEOUT_MS: Final = 3_000
_REQUEST_TIMEOUT_MS: Final = 2_000


def open_admin(client: Client) -> Admin:
    """An Admin that runs as `client`, with its servers, clock and random numbers."""
    return Admin(
        client.bootstrap_servers,
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
