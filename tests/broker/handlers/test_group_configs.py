"""Groups have their own configs, which take effect with the members' next heartbeats; and the listing of
all resources.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_config_resources import ListConfigResourcesRequest
from broker.wire.errors import ErrorCode
from broker.wire.records import Compression, iter_headers
from tests.support.requests import create_topic, fetch
from tests.support.running_node import NODE_ID, running_node
from tests.support.wire_client import WireClient, connected, only

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
STATIC_BROKER_CONFIG, DEFAULT_CONFIG, GROUP_CONFIG = 4, 5, 8
HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
WITHIN_S = 20.0
QUICK = {
    "offsets_topic_num_partitions": 1,
    "group_consumer_min_heartbeat_interval_ms": 10,
    "group_consumer_min_session_timeout_ms": 100,
}
# Keys without a key of brokers (KIP-1240).
OF_GROUPS_ALONE = {
    "share.auto.offset.reset": "latest",
    "share.isolation.level": "read_uncommitted",
    "share.renew.acknowledge.enable": "true",
    "errors.deadletterqueue.topic.name": "",
    "errors.deadletterqueue.copy.record.enable": "false",
}


async def set_config(
    client: WireClient, name: str, value: str | None, *, group: str = "group"
) -> tuple[int, str | None]:
    """Returns the error code and message."""
    config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[config])
    answer = only((await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses)
    return answer.error_code, answer.error_message


async def described(
    client: WireClient, kind: int = GROUP, name: str = "group", keys: list[str] | None = None, **fields: Any
) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return only((await client.call(DescribeConfigsRequest(resources=[resource], **fields), 4)).results)


async def listed(client: WireClient, version: int, *kinds: int) -> Sequence[tuple[int, str]] | int:
    """The types and names, or the error code."""
    answer = await client.call(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    found = [(each.resource_type, each.resource_name) for each in answer.config_resources]
    return answer.error_code or found


async def heartbeat(client: WireClient, epoch: int, member_id: str = "member", **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id="group", member_id=member_id, member_epoch=epoch, **fields)
    return await client.call(request, 1)


async def joined(client: WireClient) -> Any:
    """The response to the first heartbeat of a member, once the group has a coordinator."""
    await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
    with trio.fail_after(WITHIN_S):
        while True:
            answer = await heartbeat(
                client, 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["topic"], topic_partitions=[]
            )
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                assert answer.error_code == 0
                return answer
            await trio.sleep(0.02)


async def test_a_group_without_any_of_its_own(client: WireClient) -> None:
    result = await described(client, include_synonyms=True, include_documentation=True)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, GROUP, "group")
    assert {config.name: config.value for config in result.configs} == {
        SESSION: "45000",
        HEARTBEAT: "4000",
        "consumer.assignment.interval.ms": "1000",
        "share.session.timeout.ms": "45000",
        "share.heartbeat.interval.ms": "5000",
        "share.assignment.interval.ms": "1000",
        "share.record.lock.duration.ms": "30000",
        "share.delivery.count.limit": "5",
        "share.partition.max.record.locks": "2000",
        **OF_GROUPS_ALONE,
    }
    for config in result.configs:
        assert (config.config_source, config.read_only, config.is_sensitive) == (DEFAULT_CONFIG, False, False)
        if config.name not in OF_GROUPS_ALONE:
            assert [(each.name, each.source) for each in config.synonyms] == [(f"group.{config.name}", DEFAULT_CONFIG)]
        assert config.documentation


async def test_group_config_overrides_the_file(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, group_consumer_heartbeat_interval_ms=6000) as node,
        connected(node.port) as client,
    ):
        assert await set_config(client, HEARTBEAT, "7000") == (0, None)
        config = only((await described(client, keys=[HEARTBEAT], include_synonyms=True)).configs)
        assert [(each.name, each.value, each.source) for each in config.synonyms] == [
            (HEARTBEAT, "7000", GROUP_CONFIG),
            (f"group.{HEARTBEAT}", "6000", STATIC_BROKER_CONFIG),
            (f"group.{HEARTBEAT}", "4000", DEFAULT_CONFIG),
        ]
        assert await set_config(client, HEARTBEAT, None) == (0, None)
        config = only((await described(client, keys=[HEARTBEAT])).configs)
        assert (config.value, config.config_source) == ("6000", STATIC_BROKER_CONFIG)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (GROUP, "", "Group name must not be empty"),
        (CLIENT_METRICS, "", "Client metrics subscription name must not be empty"),
        (3, "x", "Unsupported resource type: 3"),
    ],
)
async def test_invalid_resource_is_not_described(client: WireClient, kind: int, name: str, message: str) -> None:
    result = await described(client, kind, name)
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)


async def test_invalid_group_config_is_refused(client: WireClient) -> None:
    too_short = "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"
    assert await set_config(client, SESSION, "1000") == (ErrorCode.INVALID_CONFIG, too_short)
    unknown = "Unknown group config name: streams.session.timeout.ms"
    assert await set_config(client, "streams.session.timeout.ms", "45000") == (ErrorCode.INVALID_CONFIG, unknown)
    internal = "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'"
    assert await set_config(client, "errors.deadletterqueue.topic.name", "__x") == (ErrorCode.INVALID_CONFIG, internal)
    nameless = "Default group resources are not allowed."
    assert await set_config(client, SESSION, "50000", group="") == (ErrorCode.INVALID_REQUEST, nameless)


async def test_members_hear_of_it_with_their_next_heartbeat(tmp_path: Path) -> None:
    async with running_node(tmp_path, **QUICK) as node, connected(node.port) as client:
        await create_topic(client)
        member = await joined(client)
        assert member.heartbeat_interval_ms > 50
        assert await set_config(client, HEARTBEAT, "50") == (0, None)
        assert (await heartbeat(client, member.member_epoch)).heartbeat_interval_ms == 50
        assert await set_config(client, SESSION, "200") == (0, None)
        assert (await heartbeat(client, member.member_epoch)).error_code == 0
        with trio.fail_after(WITHIN_S):
            # A heartbeat would extend the session.
            await trio.sleep(0.5)
            while (await heartbeat(client, member.member_epoch)).error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                await trio.sleep(0.5)


async def test_coordinators_compress_records_as_configured(tmp_path: Path) -> None:
    settings = {"offsets_topic_num_partitions": 1, "offsets_topic_compression_codec": Compression.ZSTD}
    async with running_node(tmp_path, **settings) as node, connected(node.port) as client:
        await create_topic(client)
        await joined(client)
        records = (await fetch(client, topic="__consumer_offsets")).records
        assert {header.compression for _, header in iter_headers(records)} == {Compression.ZSTD}


async def test_a_broker_that_is_to_serve_classic_groups_alone(tmp_path: Path) -> None:
    settings = {"group.coordinator.rebalance.protocols": "classic"}
    async with running_node(tmp_path, **settings) as node, connected(node.port) as client:
        assert (await heartbeat(client, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await client.call(ConsumerGroupDescribeRequest(group_ids=["one", "two"]), 1)
        assert [(group.group_id, group.error_code) for group in described.groups] == [
            ("one", ErrorCode.UNSUPPORTED_VERSION),
            ("two", ErrorCode.UNSUPPORTED_VERSION),
        ]


async def test_resources_with_configs_are_listed(client: WireClient) -> None:
    await create_topic(client)
    assert await set_config(client, HEARTBEAT, "7000", group="one") == (0, None)
    assert await set_config(client, SESSION, "50000", group="one") == (0, None)
    assert await set_config(client, HEARTBEAT, "7000", group="two") == (0, None)
    topics, brokers, groups = [(TOPIC, "topic")], [(BROKER, str(NODE_ID))], [(GROUP, "one"), (GROUP, "two")]
    loggers = [(BROKER_LOGGER, str(NODE_ID))]
    assert sorted(await all_listed(client)) == topics + brokers + loggers + groups
    assert await listed(client, 1, TOPIC) == topics
    assert await listed(client, 1, BROKER) == brokers
    assert sorted(await all_listed(client, GROUP, GROUP, BROKER)) == brokers + groups
    assert await listed(client, 1, BROKER_LOGGER, CLIENT_METRICS) == loggers
    assert await set_config(client, HEARTBEAT, None, group="two") == (0, None)
    assert await listed(client, 1, GROUP) == [(GROUP, "one")]


async def all_listed(client: WireClient, *kinds: int) -> Sequence[tuple[int, str]]:
    found = await listed(client, 1, *kinds)
    assert not isinstance(found, int)
    return found


async def test_listing_in_the_version_that_knows_clients_metrics_alone(client: WireClient) -> None:
    await create_topic(client)
    assert await listed(client, 0) == []


@pytest.mark.parametrize("kind", [0, 3, 33, -1])
async def test_listing_an_unknown_resource_type_is_refused(client: WireClient, kind: int) -> None:
    assert await listed(client, 1, TOPIC, kind) == ErrorCode.UNSUPPORTED_VERSION
