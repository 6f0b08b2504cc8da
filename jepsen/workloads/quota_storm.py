"""Clients that use up their quotas, clients without quotas beside them, and changes of others' quotas all the time."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

import trio

from broker.client import ConnectionLost
from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.describe_client_quotas import DescribeClientQuotasRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.codec import encode
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from jepsen.values import QuotaUser
from jepsen.workloads.client import Client

_PRODUCE_VERSION: Final = 12
_FETCH_VERSION: Final = 12
_ALTER_VERSION: Final = 1
# A response to a client that has to pause takes longer than the timeout of other requests.
_ANSWER_SECONDS: Final = 20.0
_RECORD_BYTES: Final = 1_000


async def produce_steadily(client: Client, user: QuotaUser, topic: str, index: int, idle: tuple[float, float]) -> None:
    """Produce without pause, apart from the `idle` times since now: (begin, end) in seconds."""
    data = encode_batch([Record(value=bytes(_RECORD_BYTES))])
    partition = PartitionProduceData(index=index, records=memoryview(data))
    request = ProduceRequest(
        acks=-1, timeout_ms=2_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    await _use_steadily(client, user, topic, index, idle, request, _PRODUCE_VERSION, "paced-produce")


async def fetch_steadily(client: Client, user: QuotaUser, topic: str, index: int, idle: tuple[float, float]) -> None:
    """Fetch the first batch of a partition without pause, apart from the `idle` times."""
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=_RECORD_BYTES)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=0, session_epoch=-1, topics=topics)
    await _use_steadily(client, user, topic, index, idle, request, _FETCH_VERSION, "paced-fetch")


async def _use_steadily(
    client: Client,
    user: QuotaUser,
    topic: str,
    index: int,
    idle: tuple[float, float],
    request: Any,
    version: int,
    function: str,
) -> None:
    began = trio.current_time()
    async with aclosing(client):
        while True:
            try:
                if not client.is_connected:
                    await client.seek_leader(topic, index)
                since = trio.current_time() - began
                if idle[0] <= since < idle[1]:
                    await trio.sleep(idle[1] - since)
                await _use_once(client, user, request, version, function)
            except ConnectionLost:
                await client.back_off()


async def _use_once(client: Client, user: QuotaUser, request: Any, version: int, function: str) -> None:
    operation = client.history.invoke(client.name, function, user)
    try:
        async with client.connected() as connection:
            response = await connection.call(request, version, _ANSWER_SECONDS)
    except ConnectionLost as error:
        client.history.info(operation, str(error))
        raise
    (topic,) = response.responses or [None]
    partition = None if topic is None else (getattr(topic, "partition_responses", None) or topic.partitions)[0]
    if partition is not None and partition.error_code:
        client.history.fail(operation, ErrorCode(partition.error_code).name)
        await client.aclose()
        raise ConnectionLost(ErrorCode(partition.error_code).name)
    client.history.ok(operation, (_bytes(function, request, version, response), response.throttle_time_ms))
    if user.waits:
        await trio.sleep(response.throttle_time_ms / 1000)
    await trio.sleep(user.pause_seconds)


def _bytes(function: str, request: Any, version: int, response: Any) -> int:
    """The bytes that count for the quota: the request, or the response if it has records."""
    if function == "paced-fetch":
        return sum(map(len, encode(response, version))) if response.responses else 0
    return sum(map(len, encode(request, version)))


def alteration(entity: Sequence[tuple[str, str | None]], key: str, value: float | None) -> AlterClientQuotasRequest:
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    parts = [EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity]
    return AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=[op])], validate_only=False)


async def set_quotas(client: Client, users: Sequence[QuotaUser]) -> None:
    """Set the quotas of all users that have one, and wait until each server knows them."""
    wanted = [user for user in users if user.limit is not None]
    for user in wanted:
        await client.call_until_answered(alteration(user.entity, user.key, user.limit), _ALTER_VERSION)
    for server in client.servers:
        while not await _knows(client, server, wanted):
            await client.back_off()


async def _knows(client: Client, server: tuple[str, int], users: Sequence[QuotaUser]) -> bool:
    await client.seek(server)
    try:
        async with client.connected() as connection:
            response = await connection.call(DescribeClientQuotasRequest(components=[], strict=False), 1)
    except ConnectionLost:
        return False
    known = {
        (tuple((part.entity_type, part.entity_name) for part in entry.entity), value.key): value.value
        for entry in response.entries
        for value in entry.values
    }
    return all(known.get((user.entity, user.key)) == user.limit for user in users)


async def change_other_quotas(client: Client, per_second: float) -> None:
    """Set and remove quotas of users, client ids and addresses that no client has, for ever."""
    keys = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate")
    async with aclosing(client):
        while True:
            await client.pause(per_second)
            name, value = f"other-{client.rng.randrange(20)}", client.rng.choice((None, 1.0, 5_000.0))
            entities: Sequence[tuple[Sequence[tuple[str, str | None]], str]] = (
                ([("user", name)], client.rng.choice(keys)),
                ([("client-id", name)], client.rng.choice(keys)),
                ([("client-id", name), ("user", None)], client.rng.choice(keys)),
                ([("client-id", None), ("user", name)], client.rng.choice(keys)),
                ([("ip", f"10.9.0.{client.rng.randrange(1, 20)}")], "connection_creation_rate"),
            )
            entity, key = client.rng.choice(entities)
            await client.call_until_answered(alteration(entity, key, value), _ALTER_VERSION)
