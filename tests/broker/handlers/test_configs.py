"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: values, their sources, and their effects."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.wire.api import alter_configs, incremental_alter_configs
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.errors import ErrorCode
from broker.wire.records import TimestampType, read_header
from tests.support.requests import batch, create_topic, fetch, produce
from tests.support.running_node import NODE_ID, running_node
from tests.support.wire_client import WireClient, connected, only

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
(
    DYNAMIC_TOPIC_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    DEFAULT_CONFIG,
) = range(1, 6)
INT, LONG, LIST = 3, 5, 7


async def describe(
    client: WireClient, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, **fields: Any
) -> Any:
    """The result for one resource."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return only((await client.call(DescribeConfigsRequest(resources=[resource], **fields), version)).results)


async def values_of(client: WireClient, kind: int, name: str, *keys: str) -> dict[str, tuple[str | None, int]]:
    result = await describe(client, kind, name, list(keys))
    return {config.name: (config.value, config.config_source) for config in result.configs}


async def alter(
    client: WireClient, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1, **fields: Any
) -> tuple[int, str | None]:
    """The error code and message of an IncrementalAlterConfigs for one resource."""
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=op, value=value)
            for key, op, value in changes
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], **fields)
    answer = only((await client.call(request, version)).responses)
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


async def replace(
    client: WireClient, kind: int, name: str, configs: Mapping[str, str | None], *, version: int = 2, **fields: Any
) -> tuple[int, str | None]:
    """The error code and message of an AlterConfigs for one resource."""
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource], **fields)
    answer = only((await client.call(request, version)).responses)
    return answer.error_code, answer.error_message


# DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topic_with_a_config_of_its_own(client: WireClient, version: int) -> None:
    await create_topic(client, configs={"retention.ms": "1234"})

    result = await describe(client, TOPIC, "topic", version=version)

    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "topic")
    assert result.error_message == ""
    configs = {config.name: config for config in result.configs}
    assert len(configs) > 25
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1234", DYNAMIC_TOPIC_CONFIG)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", DEFAULT_CONFIG)
    assert not any(config.synonyms or config.read_only or config.is_sensitive for config in result.configs)
    if version >= 3:
        types = [configs[name].config_type for name in ("retention.ms", "segment.bytes", "cleanup.policy")]
        assert types == [LONG, INT, LIST]
        assert all(config.documentation is None for config in result.configs)


async def test_synonyms_list_the_overridden_values(tmp_path: Path) -> None:
    async with running_node(tmp_path, log_retention_ms=5000) as node, connected(node.port) as client:
        await create_topic(client, configs={"retention.ms": "1234"})

        result = await describe(client, TOPIC, "topic", ["retention.ms"], include_synonyms=True)

        synonyms = [(each.name, each.value, each.source) for each in only(result.configs).synonyms]
        assert synonyms == [
            ("retention.ms", "1234", DYNAMIC_TOPIC_CONFIG),
            ("log.retention.ms", "5000", STATIC_BROKER_CONFIG),
            ("log.retention.hours", "168", DEFAULT_CONFIG),
        ]


async def test_every_topic_config_is_documented(client: WireClient) -> None:
    """KIP-569."""
    await create_topic(client)

    result = await describe(client, TOPIC, "topic", include_documentation=True)

    assert all(config.documentation for config in result.configs)


async def test_only_the_configs_that_are_asked_for(client: WireClient) -> None:
    await create_topic(client)

    assert set(await values_of(client, TOPIC, "topic", "retention.ms", "no.such")) == {"retention.ms"}
    assert len(await values_of(client, TOPIC, "topic")) > 25  # no names mean all keys, as null does


async def test_a_broker(client: WireClient) -> None:
    result = await describe(client, BROKER, str(NODE_ID))

    configs = {config.name: config for config in result.configs}
    assert (configs["node.id"].value, configs["node.id"].config_source) == ("1", STATIC_BROKER_CONFIG)
    assert configs["node.id"].read_only
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("1", DEFAULT_CONFIG)
    assert not configs["message.max.bytes"].read_only
    assert configs["ssl.keystore.password"].is_sensitive
    assert configs["ssl.keystore.password"].value is None


async def test_the_default_of_all_brokers(client: WireClient) -> None:
    """One is always set, because elections depend on it: min.insync.replicas (KIP-966)."""
    agreed = {"min.insync.replicas": ("1", DYNAMIC_DEFAULT_BROKER_CONFIG)}
    assert await values_of(client, BROKER, "") == agreed

    await alter(client, BROKER, "", ("message.max.bytes", SET, "2000"))

    set_since = {"message.max.bytes": ("2000", DYNAMIC_DEFAULT_BROKER_CONFIG)}
    assert await values_of(client, BROKER, "") == {**agreed, **set_since}
    assert await values_of(client, BROKER, "1", "message.max.bytes") == {
        "message.max.bytes": ("2000", DYNAMIC_DEFAULT_BROKER_CONFIG)
    }


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, " 1", ErrorCode.INVALID_REQUEST),
        (99, "topic", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_resources_that_are_not_there(client: WireClient, kind: int, name: str, code: ErrorCode) -> None:
    await create_topic(client)
    known = DescribeConfigsResource(resource_type=TOPIC, resource_name="topic", configuration_keys=None)
    unknown = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)

    results = (await client.call(DescribeConfigsRequest(resources=[unknown, known]), 4)).results

    assert [(each.resource_name, each.error_code) for each in results] == [(name, code), ("topic", 0)]
    assert results[0].configs == []
    assert results[0].error_message


# IncrementalAlterConfigs (KIP-339)


@pytest.mark.parametrize("version", [0, 1])
async def test_single_configs_are_changed(client: WireClient, version: int) -> None:
    await create_topic(client, configs={"retention.ms": "1", "segment.ms": "2"})

    changes = [("retention.ms", SET, "3"), ("segment.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")]
    assert await alter(client, TOPIC, "topic", *changes, version=version) == (0, None)

    assert await values_of(client, TOPIC, "topic", "retention.ms", "segment.ms", "cleanup.policy") == {
        "retention.ms": ("3", DYNAMIC_TOPIC_CONFIG),
        "segment.ms": ("604800000", DEFAULT_CONFIG),
        "cleanup.policy": ("delete,compact", DYNAMIC_TOPIC_CONFIG),
    }
    await alter(client, TOPIC, "topic", ("cleanup.policy", SUBTRACT, "delete"), version=version)
    assert (await values_of(client, TOPIC, "topic", "cleanup.policy"))["cleanup.policy"][0] == "compact"


async def test_validate_only_changes_nothing(client: WireClient) -> None:
    await create_topic(client)

    assert await alter(client, TOPIC, "topic", ("retention.ms", SET, "3"), validate_only=True) == (0, None)
    code, _ = await alter(client, TOPIC, "topic", ("retention.ms", SET, "x"), validate_only=True)
    assert await replace(client, TOPIC, "topic", {"retention.ms": "3"}, validate_only=True) == (0, None)

    assert code == ErrorCode.INVALID_CONFIG
    assert (await values_of(client, TOPIC, "topic", "retention.ms"))["retention.ms"][1] == DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"),
    [
        (TOPIC, "topic", [("no.such", SET, "1")], "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (
            TOPIC,
            "topic",
            [("retention.ms", SET, "soon")],
            "INVALID_CONFIG",
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "topic",
            [("retention.ms", APPEND, "1")],
            "INVALID_CONFIG",
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "topic",
            [("retention.ms", SET, None)],
            "INVALID_REQUEST",
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "topic",
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            "INVALID_REQUEST",
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            "other",
            [("retention.ms", SET, "1")],
            "UNKNOWN_TOPIC_OR_PARTITION",
            "The topic 'other' does not exist.",
        ),
        (TOPIC, "", [("retention.ms", SET, "1")], "INVALID_REQUEST", "Default topic resources are not allowed."),
        (
            BROKER,
            "1",
            [("node.id", SET, "2")],
            "INVALID_REQUEST",
            "Cannot update these configs dynamically: [node.id]",
        ),
        (99, "topic", [("retention.ms", SET, "1")], "INVALID_REQUEST", "Unknown resource type 99"),
    ],
)
async def test_invalid_config_change_is_refused(
    client: WireClient, kind: int, name: str, changes: list[tuple[str, int, str | None]], code: str, message: str
) -> None:
    await create_topic(client)

    error_code, error_message = await alter(client, kind, name, *changes)

    assert (ErrorCode(error_code).name, error_message) == (code, message)


async def test_each_resource_may_be_named_once(client: WireClient) -> None:
    await create_topic(client)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="topic")
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource, resource])

    answers = (await client.call(request, 1)).responses

    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_REQUEST}
    assert {answer.error_message for answer in answers} == {"Each resource must appear at most once."}


# AlterConfigs (KIP-133)


@pytest.mark.parametrize("version", range(3))
async def test_all_configs_are_replaced(client: WireClient, version: int) -> None:
    await create_topic(client, configs={"retention.ms": "1", "segment.ms": "2"})

    assert await replace(client, TOPIC, "topic", {"retention.ms": "3"}, version=version) == (0, None)

    assert await values_of(client, TOPIC, "topic", "retention.ms", "segment.ms") == {
        "retention.ms": ("3", DYNAMIC_TOPIC_CONFIG),
        "segment.ms": ("604800000", DEFAULT_CONFIG),
    }


async def test_nothing_is_replaced_where_one_config_is_wrong(client: WireClient) -> None:
    await create_topic(client, configs={"retention.ms": "1"})

    code, _ = await replace(client, TOPIC, "topic", {"segment.ms": "3", "retention.ms": "x"})

    assert code == ErrorCode.INVALID_CONFIG
    assert (await values_of(client, TOPIC, "topic", "retention.ms"))["retention.ms"][0] == "1"


# Effects of changes


async def test_a_topics_change_counts_for_the_next_batch(client: WireClient) -> None:
    await create_topic(client)
    await produce(client, batch(b"value", timestamp=5))

    await alter(client, TOPIC, "topic", ("message.timestamp.type", SET, "LogAppendTime"))
    assert (await produce(client, batch(b"value", timestamp=5))).log_append_time_ms > 5
    await alter(client, TOPIC, "topic", ("max.message.bytes", SET, "80"))
    assert (await produce(client, batch(bytes(100)))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    await alter(client, TOPIC, "topic", ("max.message.bytes", DELETE, None), ("message.timestamp.type", DELETE, None))

    await produce(client, batch(bytes(100), timestamp=5))
    assert read_header((await fetch(client, 2)).records).timestamp_type is TimestampType.CREATE_TIME
    assert (await fetch(client)).high_watermark == 3


@pytest.mark.parametrize("name", ["", "1"])
async def test_a_brokers_change_counts_for_topics_that_set_nothing(client: WireClient, name: str) -> None:
    """KIP-226."""
    await create_topic(client, "own", configs={"max.message.bytes": "100000"})
    await create_topic(client, "default")

    assert await alter(client, BROKER, name, ("message.max.bytes", SET, "80")) == (0, None)

    assert (await produce(client, batch(bytes(100)), topic="own")).error_code == 0
    assert (await produce(client, batch(bytes(100)), topic="default")).error_code == ErrorCode.MESSAGE_TOO_LARGE
    source = DYNAMIC_BROKER_CONFIG if name else DYNAMIC_DEFAULT_BROKER_CONFIG
    assert await values_of(client, TOPIC, "default", "max.message.bytes") == {"max.message.bytes": ("80", source)}


async def test_changes_outlive_the_node(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await alter(client, TOPIC, "topic", ("max.message.bytes", SET, "80"))
        await alter(client, BROKER, "", ("log.retention.ms", SET, "1234567"))

    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert (await produce(client, batch(bytes(100)))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert await values_of(client, TOPIC, "topic", "retention.ms", "max.message.bytes") == {
            "retention.ms": ("1234567", DYNAMIC_DEFAULT_BROKER_CONFIG),
            "max.message.bytes": ("80", DYNAMIC_TOPIC_CONFIG),
        }
