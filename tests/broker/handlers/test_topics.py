"""CreateTopics, DeleteTopics and CreatePartitions: their effects, and Kafka's error codes and messages."""

from pathlib import Path
from typing import Any

import pytest

from broker.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, fetch, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

DYNAMIC_TOPIC_CONFIG = 1
DEFAULT_CONFIG = 5


def topic(name: str = "topic", partitions: int = 1, factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)


def assigned(*replicas: tuple[int, list[int]], **fields: Any) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in replicas]
    return CreatableTopic(
        **{"name": "topic", "num_partitions": -1, "replication_factor": -1, **fields}, assignments=assignments
    )


def configured(**configs: str | None) -> CreatableTopic:
    return topic(
        configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    )


async def create(client: WireClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> Any:
    """The results by name."""
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1_000, validate_only=validate_only)
    response = await client.call(request, version)
    results = {result.name: result for result in response.topics}
    assert len(results) == len(response.topics)
    return results


async def partitions(client: WireClient) -> dict[str, int]:
    """The number of partitions of each topic."""
    response = await client.call(MetadataRequest(topics=None), 12)
    return {each.name: len(each.partitions) for each in response.topics}


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created(client: WireClient, version: int) -> None:
    results = await create(client, topic("one"), topic("three", 3), topic("default", -1, -1), version=version)

    assert [result.error_code for result in results.values()] == [0, 0, 0]
    assert all(result.error_message is None for result in results.values())
    assert await partitions(client) == {"one": 1, "three": 3, "default": 1}
    if version >= 5:
        assert [(each.num_partitions, each.replication_factor) for each in results.values()] == [(1, 1), (3, 1), (1, 1)]
    if version >= 7:
        assert all(result.topic_id != bytes(16) for result in results.values())
    assert (await produce(client, batch(b"value"), topic="three", index=2)).error_code == 0


@pytest.mark.parametrize("version", [5, 7])
async def test_the_configs_that_follow_are_told(client: WireClient, version: int) -> None:
    """KIP-525; Java's Admin fails if they are null."""
    result = (await create(client, configured(retention_ms="1234"), version=version))["topic"]

    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("1234", DYNAMIC_TOPIC_CONFIG)
    assert configs["cleanup.policy"] == ("delete", DEFAULT_CONFIG)
    assert not any(config.is_sensitive or config.read_only for config in result.configs)


async def test_configs_are_told_as_they_were_written(client: WireClient) -> None:
    """As in Kafka; DescribeConfigs returns normalized values."""
    result = (await create(client, configured(min_cleanable_dirty_ratio="1", preallocate=" TRUE ")))["topic"]

    configs = {config.name: config.value for config in result.configs}
    assert (configs["min.cleanable.dirty.ratio"], configs["preallocate"]) == ("1", " TRUE ")


async def test_failed_topic_has_no_configs(client: WireClient) -> None:
    assert (await create(client, topic("bad", 0)))["bad"].configs == []


async def test_partitions_go_where_the_client_puts_them(client: WireClient) -> None:
    result = (await create(client, assigned((1, [1]), (0, [1]))))["topic"]

    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert await partitions(client) == {"topic": 2}


async def test_validate_only_returns_the_result_and_changes_nothing(client: WireClient) -> None:
    results = await create(client, topic("good", 3), topic("bad", 0), validate_only=True)

    assert (results["good"].error_code, results["good"].num_partitions) == (0, 3)
    assert results["bad"].error_code == ErrorCode.INVALID_PARTITIONS
    assert await partitions(client) == {}


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic(partitions=0), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (
            topic(factor=0),
            "INVALID_REPLICATION_FACTOR",
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic(factor=2),
            "INVALID_REPLICATION_FACTOR",
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (topic(""), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (topic("."), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '.' is not allowed"),
        (
            topic("a b"),
            "INVALID_TOPIC_EXCEPTION",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
            "'-'",
        ),
        (
            topic("n" * 250),
            "INVALID_TOPIC_EXCEPTION",
            f"Topic name is invalid: the length of '{'n' * 250}' is longer than the max allowed length 249",
        ),
        (topic("exists"), "TOPIC_ALREADY_EXISTS", "Topic 'exists' already exists."),
        (topic("with_bar"), "INVALID_TOPIC_EXCEPTION", "Topic 'with_bar' collides with existing topic: with.bar"),
        (
            topic("__cluster_metadata"),
            "INVALID_REQUEST",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            topic("__cluster_metadata", partitions=10_001),
            "INVALID_REQUEST",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            topic(configs=[CreatableTopicConfig(name="flush.ms", value=value) for value in (None, "1000")]),
            "INVALID_CONFIG",
            "Null value not supported for topic configs: flush.ms",
        ),
        (configured(no_such="1"), "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (
            configured(retention_ms="soon"),
            "INVALID_CONFIG",
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (configured(retention_ms=None), "INVALID_CONFIG", "Null value not supported for topic configs: retention.ms"),
        (
            assigned((0, [1]), num_partitions=1),
            "INVALID_REQUEST",
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned((0, [1]), replication_factor=1),
            "INVALID_REQUEST",
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            assigned((0, [1]), (2, [1])),
            "INVALID_REPLICA_ASSIGNMENT",
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            assigned((0, [9])),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned((0, [1, 1])),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            assigned((0, [])),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
async def test_invalid_topic_is_refused_alone(
    client: WireClient, wanted: CreatableTopic, code: str, message: str
) -> None:
    await create(client, topic("exists"), topic("with.bar"))

    results = await create(client, wanted, topic("good"))

    refused = results[wanted.name]
    assert (ErrorCode(refused.error_code).name, refused.error_message) == (code, message)
    assert (refused.num_partitions, refused.topic_id) == (-1, bytes(16))
    assert results["good"].error_code == 0


async def test_a_topic_that_is_given_twice_is_not_created(client: WireClient) -> None:
    results = await create(client, topic("twice"), topic("once"), topic("twice", 2))

    assert results["twice"].error_code == ErrorCode.INVALID_REQUEST
    assert results["twice"].error_message == "Duplicate topic name."
    assert await partitions(client) == {"once": 1}


async def test_too_many_partitions_in_one_request_create_none(client: WireClient) -> None:
    results = await create(client, topic("one"), topic("many", 10_000))

    assert {result.error_code for result in results.values()} == {ErrorCode.POLICY_VIOLATION}
    assert await partitions(client) == {}


# DeleteTopics


async def delete(client: WireClient, *topics: DeleteTopicState) -> list[Any]:
    request = DeleteTopicsRequest(topics=list(topics), timeout_ms=1_000)
    responses: list[Any] = (await client.call(request, 6)).responses
    return responses


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name(client: WireClient, version: int) -> None:
    await create_topic(client, "goes")
    await create_topic(client, "stays")
    request = DeleteTopicsRequest(
        topic_names=["goes", "never was"],
        topics=[DeleteTopicState(name="goes"), DeleteTopicState(name="never was")],
        timeout_ms=1_000,
    )

    responses = {response.name: response for response in (await client.call(request, version)).responses}

    assert responses["goes"].error_code == 0
    assert responses["never was"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await partitions(client) == {"stays": 1}
    assert (await fetch(client, topic="goes")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_topics_are_deleted_by_id(client: WireClient) -> None:
    """KIP-516."""
    topic_id = await create_topic(client, "goes")

    response = only(await delete(client, DeleteTopicState(topic_id=topic_id)))
    again = only(await delete(client, DeleteTopicState(topic_id=topic_id)))

    assert (response.name, response.topic_id, response.error_code) == ("goes", topic_id, 0)
    assert (again.name, again.topic_id, again.error_code) == (None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    assert await partitions(client) == {}


async def test_a_topic_has_to_be_meant_clearly_to_be_deleted(client: WireClient) -> None:
    one, two, three = [await create_topic(client, name) for name in ("one", "two", "three")]

    neither, both, twice, named = await delete(
        client,
        DeleteTopicState(),
        DeleteTopicState(name="one", topic_id=one),
        DeleteTopicState(name="two"),
        DeleteTopicState(name="two"),
        DeleteTopicState(name="three"),
        DeleteTopicState(topic_id=three),
    )

    assert neither.error_message == "Neither topic name nor id were specified."
    assert both.error_message == "You may not specify both topic name and topic id."
    assert twice.error_message == "Duplicate topic name."
    assert named.error_message == "The provided topic name maps to an ID that was already supplied."
    assert {each.error_code for each in (neither, both, twice, named)} == {ErrorCode.INVALID_REQUEST}
    assert (named.name, named.topic_id) == ("three", three)
    assert await partitions(client) == {"one": 1, "two": 1, "three": 1}
    assert two != three


async def test_a_topic_made_again_under_its_name_begins_empty(client: WireClient) -> None:
    old_id = await create_topic(client)
    await produce(client, batch(b"old"))
    await delete(client, DeleteTopicState(name="topic"))

    new_id = await create_topic(client)

    assert new_id != old_id
    assert (await fetch(client)).high_watermark == 0
    assert (await produce(client, batch(b"new"))).base_offset == 0


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_nothing_is_deleted_where_that_is_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async with running_node(tmp_path, delete_topic_enable="false") as node, connected(node.port) as client:
        await create_topic(client)

        response = await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), version)

        assert [(each.name, each.error_code) for each in response.responses] == [("topic", code)]
        assert await partitions(client) == {"topic": 1}


# CreatePartitions


async def grow(client: WireClient, *wanted: CreatePartitionsTopic, version: int = 3, **fields: Any) -> Any:
    request = CreatePartitionsRequest(topics=list(wanted), timeout_ms=1_000, **fields)
    return {result.name: result for result in (await client.call(request, version)).results}


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow(client: WireClient, version: int) -> None:
    await create_topic(client)
    await produce(client, batch(b"value"))

    result = (await grow(client, CreatePartitionsTopic(name="topic", count=3, assignments=None), version=version))[
        "topic"
    ]

    assert (result.error_code, result.error_message) == (0, None)
    assert await partitions(client) == {"topic": 3}
    assert (await produce(client, batch(b"value"), index=2)).base_offset == 0
    assert (await fetch(client)).high_watermark == 1


async def test_new_partitions_go_where_the_client_puts_them(client: WireClient) -> None:
    await create_topic(client)

    assignments = [CreatePartitionsAssignment(broker_ids=[1])]
    results = await grow(client, CreatePartitionsTopic(name="topic", count=2, assignments=assignments))

    assert results["topic"].error_code == 0
    assert await partitions(client) == {"topic": 2}


async def test_validate_only_lets_nothing_grow(client: WireClient) -> None:
    await create_topic(client)

    wanted = CreatePartitionsTopic(name="topic", count=3, assignments=None)
    assert (await grow(client, wanted, validate_only=True))["topic"].error_code == 0

    assert await partitions(client) == {"topic": 1}


@pytest.mark.parametrize(
    ("name", "count", "replicas", "code", "message"),
    [
        ("topic", 2, None, "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (
            "topic",
            1,
            None,
            "INVALID_PARTITIONS",
            "The topic topic currently has 2 partition(s); 1 would not be an increase.",
        ),
        ("other", 2, None, "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        (
            "topic",
            4,
            [[1]],
            "INVALID_REPLICA_ASSIGNMENT",
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "topic",
            3,
            [[9]],
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
async def test_invalid_partition_count_is_refused(
    client: WireClient, name: str, count: int, replicas: list[list[int]] | None, code: str, message: str
) -> None:
    await create_topic(client, partitions=2)
    assignments = None if replicas is None else [CreatePartitionsAssignment(broker_ids=each) for each in replicas]

    result = (await grow(client, CreatePartitionsTopic(name=name, count=count, assignments=assignments)))[name]

    assert (ErrorCode(result.error_code).name, result.error_message) == (code, message)
    assert await partitions(client) == {"topic": 2}


async def test_a_topic_that_is_to_grow_twice_does_not(client: WireClient) -> None:
    await create_topic(client)
    wanted = [CreatePartitionsTopic(name="topic", count=count, assignments=None) for count in (2, 3)]

    result = (await grow(client, *wanted))["topic"]

    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert await partitions(client) == {"topic": 1}


@pytest.mark.parametrize("version", [2, 7])
async def test_a_name_of_the_largest_size_is_refused_in_every_version(tmp_path: Path, version: int) -> None:
    """The message that quotes the name still fits into the response."""
    name = "x" * 32_767
    async with running_node(tmp_path) as node, connected(node.port) as client:
        result = (await create(client, topic(name), version=version))[name]
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert result.error_message.startswith("Topic name is invalid: ")
        deleted = await client.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000), 5)
        assert only(deleted.responses).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        configs = [CreatableTopicConfig(name=name, value=name)]
        result = (await create(client, topic(configs=configs), version=version))["topic"]
        assert result.error_code == ErrorCode.INVALID_CONFIG


async def test_creation_event_names_the_client_that_asked(node: RunningNode, client: WireClient) -> None:
    await create_topic(client, "topic")
    (event,) = [event for event in node.traced.of("topic_created") if event["topic"] == "topic"]
    assert str(event["cause"]).startswith("CreateTopics of User:ANONYMOUS, ")
    assert str(event["cause"]).endswith(" at 127.0.0.1")
