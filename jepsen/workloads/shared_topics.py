"""Clients that create, grow and delete the same few topics, with requests to the active controller itself.

A broker that forwards a request may send it twice and drop the first response (KIP-590). These clients therefore
connect to controllers, whose responses are exact.
"""

from typing import Final

import attrs

from broker.client import ConnectionLost
from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.errors import ErrorCode
from jepsen.values import SHARED_NAMES, Change
from jepsen.workloads.client import Client

_TIMEOUT_MS: Final = 2_000
# The number of operations on the names of one generation, and the number of those names; see `workloads.registers`.
_OPERATIONS_PER_GENERATION: Final = 30
_NAMES_PER_GENERATION: Final = 2
# Errors that tell in which state the topic was.
DEFINITE_ERRORS: Final = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PARTITIONS,
)


@attrs.define
class Generations:
    """Counts the operations of all clients, which share one instance."""

    operations: int = 0


async def contend(client: Client, generations: Generations, per_second: float) -> None:
    """Send changes until cancelled."""
    while True:
        await client.pause(per_second)
        generations.operations += 1
        generation = generations.operations // _OPERATIONS_PER_GENERATION
        name = f"{SHARED_NAMES}{generation}-{client.rng.randrange(_NAMES_PER_GENERATION)}"
        function = client.rng.choice(("share-topic", "share-topic", "grow-topic", "drop-topic"))
        await _attempt(client, function, Change(name, client.rng.randint(1, 4)))


async def _attempt(client: Client, function: str, change: Change) -> None:
    """Send one change and record it. A result that is certain is recorded as the name of the error."""
    operation = client.history.invoke(client.name, function, change)
    try:
        async with client.connected() as connection:
            code = await _ask(connection.call, function, change)
    except ConnectionLost as error:
        client.history.info(operation, str(error))
        return
    if code in DEFINITE_ERRORS:
        client.history.ok(operation, code.name, incarnation=connection.incarnation)
        return
    client.history.info(operation, code.name)
    await client.aclose()  # the next connection may reach the active controller


async def _ask(call: object, function: str, change: Change) -> ErrorCode:
    assert callable(call), "a connection's method"
    match function:
        case "share-topic":
            topic = CreatableTopic(name=change.name, num_partitions=change.partitions, replication_factor=1)
            response = await call(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 7)
            return ErrorCode(response.topics[0].error_code)
        case "grow-topic":
            grown = CreatePartitionsTopic(name=change.name, count=change.partitions, assignments=None)
            response = await call(CreatePartitionsRequest(topics=[grown], timeout_ms=_TIMEOUT_MS), 3)
            return ErrorCode(response.results[0].error_code)
        case _:
            gone = DeleteTopicState(name=change.name)
            response = await call(DeleteTopicsRequest(topics=[gone], timeout_ms=_TIMEOUT_MS), 6)
            return ErrorCode(response.responses[0].error_code)
