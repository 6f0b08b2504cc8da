"""KIP-412: the levels of a node's loggers, described and changed by a client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.wire.api.alter_configs import AlterConfigsRequest
from broker.wire.api.alter_configs import AlterConfigsResource as ReplacedResource
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.errors import ErrorCode
from tests.support.requests import create_topic
from tests.support.running_node import NODE_ID, RunningNode
from tests.support.wire_client import WireClient, connected, only

TOPIC, BROKER_LOGGER = 2, 8
SET, DELETE = 0, 1
DYNAMIC_BROKER_LOGGER_CONFIG = 6
NODE = str(NODE_ID)


def resource(name: str = NODE, kind: int = BROKER_LOGGER, **levels: str | None) -> AlterConfigsResource:
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in levels.items()
    ]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


async def alter(client: WireClient, *resources: AlterConfigsResource, validate_only: bool = False) -> list[Any]:
    """The error codes and messages of the resources."""
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = await client.call(request, 1)
    assert [each.resource_name for each in response.responses] == [each.resource_name for each in resources]
    return [(each.error_code, each.error_message) for each in response.responses]


async def describe(client: WireClient, name: str = NODE, keys: list[str] | None = None) -> Any:
    described = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=name, configuration_keys=keys)
    return only((await client.call(DescribeConfigsRequest(resources=[described]), 4)).results)


async def level_of(client: WireClient, logger: str = "root") -> str:
    level: str = only((await describe(client, keys=[logger])).configs).value
    return level


@asynccontextmanager
async def at_each_listener(node: RunningNode) -> AsyncIterator[list[WireClient]]:
    async with connected(node.port) as broker, connected(node.controller_port) as controller:
        yield [broker, controller]


async def test_level_is_described_changed_and_removed_at_brokers_and_controllers(node: RunningNode) -> None:
    async with at_each_listener(node) as clients:
        for client in clients:
            config = only((await describe(client)).configs)
            assert (config.name, config.value, config.config_source) == ("root", "INFO", DYNAMIC_BROKER_LOGGER_CONFIG)
            assert (config.read_only, config.is_sensitive) == (False, False)
            assert await alter(client, resource(root="DEBUG"), validate_only=True) == [(ErrorCode.NONE, None)]
            assert await level_of(client) == "INFO"
            assert await alter(client, resource(root="DEBUG")) == [(ErrorCode.NONE, None)]
            assert await level_of(client) == "DEBUG"
            assert await alter(client, resource(root="INFO")) == [(ErrorCode.NONE, None)]
    assert [(each["logger"], each["level"]) for each in node.traced.of("log_level_changed")] == [
        ("root", "DEBUG"),
        ("root", "INFO"),
    ] * 2


async def test_request_for_loggers_and_topics_is_answered_in_its_order(node: RunningNode) -> None:
    async with at_each_listener(node) as clients:
        await create_topic(clients[0])
        for client in clients:
            topic = resource("topic", TOPIC, retention_ms="1000")
            missing = resource("missing", TOPIC, retention_ms="1000")
            codes = [code for code, _ in await alter(client, missing, resource(root="WARN"), topic)]
            assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE, ErrorCode.NONE]
            assert await level_of(client) == "WARN"
            assert await alter(client, resource(root="INFO")) == [(ErrorCode.NONE, None)]


@pytest.mark.parametrize(
    ("refused", "code", "message"),
    [
        (
            resource("7", root="INFO"),
            ErrorCode.INVALID_REQUEST,
            "Unexpected node id. Expected 1, but received 7",
        ),
        (
            resource("one", root="INFO"),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: one",
        ),
        (resource(other="INFO"), ErrorCode.INVALID_CONFIG, "Logger other does not exist!"),
        (
            AlterConfigsResource(
                resource_type=BROKER_LOGGER,
                resource_name=NODE,
                configs=[AlterableConfig(name="root", config_operation=SET, value="INFO")] * 2,
            ),
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            AlterConfigsResource(
                resource_type=BROKER_LOGGER,
                resource_name=NODE,
                configs=[AlterableConfig(name="root", config_operation=SET, value=None)],
            ),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : root",
        ),
        (
            resource(**{f"logger{index}": "INFO" for index in range(101)}),
            ErrorCode.INVALID_REQUEST,
            "A resource has 100 configs at most.",
        ),
    ],
)
async def test_invalid_change_of_loggers_is_refused(
    client: WireClient, refused: AlterConfigsResource, code: int, message: str
) -> None:
    assert await alter(client, refused) == [(code, message)]
    assert await level_of(client) == "INFO"


async def test_loggers_of_a_node_are_named_once_in_a_request(client: WireClient) -> None:
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert await alter(client, resource(root="WARN"), resource(root="ERROR")) == [twice, twice]


async def test_loggers_cannot_be_replaced_by_the_older_request(client: WireClient) -> None:
    replaced = ReplacedResource(resource_type=BROKER_LOGGER, resource_name=NODE, configs=[])
    answer = only((await client.call(AlterConfigsRequest(resources=[replaced]), 2)).responses)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Broker id must not be empty"),
        ("x", "Broker id must be an integer, but it is: x"),
        ("7", "Unexpected broker id, expected 1 but received 7"),
    ],
)
async def test_loggers_of_another_node_are_not_described(client: WireClient, name: str, message: str) -> None:
    result = await describe(client, name)
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)
