"""Clients that create and delete topics. A name is used only once, so it is known which topic a name stands for."""

import trio

from broker.client import ConnectionLost
from broker.wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid
from jepsen.history import Operation
from jepsen.values import SeenTopic, WantedTopic
from jepsen.workloads.client import METADATA_VERSION, Client

_CREATE_VERSION = 7
_DELETE_VERSION = 6


async def create_topic(client: Client, wanted: WantedTopic) -> bool:
    """Try once to create a topic, and record it with the topic id as its result. Returns True if it succeeded."""
    operation = client.history.invoke(client.name, "create-topic", wanted)
    try:
        async with client.connected() as connection:
            response = await connection.call(_creation(wanted), _CREATE_VERSION)
    except ConnectionLost as error:
        client.history.info(operation, str(error))
        return False
    (topic,) = response.topics
    if topic.error_code == 0:
        client.history.ok(operation, encode_uuid(topic.topic_id), incarnation=connection.incarnation)
        return True
    _refused(client, operation, topic.error_code)
    return False


async def delete_topic(client: Client, name: str) -> None:
    """Try once to delete a topic, and record it."""
    operation = client.history.invoke(client.name, "delete-topic", name)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
    try:
        async with client.connected() as connection:
            response = await connection.call(request, _DELETE_VERSION)
    except ConnectionLost as error:
        client.history.info(operation, str(error))
        return
    (topic,) = response.responses
    if topic.error_code == 0:
        client.history.ok(operation, None, incarnation=connection.incarnation)
    else:
        _refused(client, operation, topic.error_code)


async def seen_topics(client: Client) -> dict[str, SeenTopic]:
    """All topics, as reported by the first node that answers; recorded as `list-topics`."""
    operation = client.history.invoke(client.name, "list-topics", None)
    response, incarnation = await client.call_until_answered(MetadataRequest(topics=None), METADATA_VERSION)
    seen = {topic.name: SeenTopic(encode_uuid(topic.topic_id), len(topic.partitions)) for topic in response.topics}
    client.history.ok(operation, seen, incarnation=incarnation)
    return seen


async def churn_topics(client: Client, per_second: float, partitions_max: int, deleted: float) -> None:
    """Create topics that no other client uses, and delete the share `deleted` of them, until cancelled."""
    serial = 0
    while True:
        await client.pause(per_second)
        serial += 1
        wanted = WantedTopic(f"{client.name}-{serial}", client.rng.randint(1, partitions_max), is_flushed=False)
        if await create_topic(client, wanted) and client.rng.random() < deleted:
            await trio.sleep(client.rng.random() * 0.05)
            await delete_topic(client, wanted.name)


def _creation(wanted: WantedTopic) -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in wanted.configs]
    if wanted.is_flushed:
        configs.append(CreatableTopicConfig(name="flush.messages", value="1"))
    topic = CreatableTopic(
        name=wanted.name,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replication_factor,
        configs=configs,
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def _refused(client: Client, operation: Operation, code: int) -> None:
    # No other client uses this name, so with these errors the attempt has certainly changed nothing.
    certain = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR)
    record = client.history.fail if code in certain else client.history.info
    record(operation, ErrorCode(code).name)
