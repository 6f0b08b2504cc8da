"""What an administrator asks of topics. Everything is tried once: what became of it, the metadata tell."""

from collections.abc import Sequence
from typing import Any, Final

from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from broker.wire.errors import ErrorCode
from jepsen.workloads.client import Client
from jepsen.workloads.connection import ConnectionLost
from metadata.configuration import ResourceType

_TIMEOUT_MS: Final = 2_000
_PREFERRED: Final = 0
_SET: Final = 0
_ELECT_VERSION: Final = 2
_REASSIGN_VERSION: Final = 1
_LIST_VERSION: Final = 0
_CONFIGURE_VERSION: Final = 1


async def elect_preferred_leaders(client: Client, topic: str | None, partition: int = 0) -> None:
    """Of one partition; without a topic, of all there are."""
    partitions = None if topic is None else [TopicPartitions(topic=topic, partitions=[partition])]
    request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=partitions, timeout_ms=_TIMEOUT_MS)
    await _ask(client, "elect-leaders", request, _ELECT_VERSION)


async def reassign(client: Client, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
    """Have a partition's replicas on these brokers; with None, as they were before this was asked for."""
    wanted = None if replicas is None else list(replicas)
    moved = ReassignableTopic(
        name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=wanted)]
    )
    request = AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=[moved])
    await _ask(client, "reassign", request, _REASSIGN_VERSION)


async def configure(client: Client, topic: str, name: str, value: str) -> None:
    """Set one of a topic's configs."""
    config = AlterableConfig(name=name, config_operation=_SET, value=value)
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config])
    await _ask(client, "configure", IncrementalAlterConfigsRequest(resources=[resource]), _CONFIGURE_VERSION)


async def is_anything_moving(client: Client) -> bool:
    """Whether a reassignment goes on, as whoever answers first has it."""
    response, _ = await client.call_until_answered(ListPartitionReassignmentsRequest(), _LIST_VERSION)
    return bool(response.error_code or response.topics)


async def _ask(client: Client, function: str, request: Any, version: int) -> None:
    operation = client.history.invoke(client.name, function, None)
    try:
        async with client.connected() as connection:
            response = await connection.call(request, version)
    except ConnectionLost as error:
        client.history.info(operation, str(error))
        return
    client.history.ok(operation, ErrorCode(getattr(response, "error_code", 0)).name, life=connection.life)
