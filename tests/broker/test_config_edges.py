"""A node serves its clients with every dynamic config at each edge of its range, set and removed while it runs."""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from metadata.configuration import TOPIC_CONFIGS
from metadata.configuration.broker import broker_key
from metadata.configuration.synonyms import listener_base
from metadata.protocol import ConfigResourceType
from tests.support import config_values
from tests.support.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_request,
)
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

SET, DELETE = 0, 1
# The node's background work runs when the test asks for it.
NODE = {"log_initial_task_delay_ms": 10**9, "log_cleaner_backoff_ms": 10**9}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "900", "min.cleanable.dirty.ratio": "0"}


def edges(row: config_values.Row) -> list[str]:
    """The values at the ends of the ranges, and the other values that are accepted."""
    numbers = [number for ends in row.numbers.split() for number in ends.split("..")]
    return numbers or list(dict.fromkeys(text.strip() for text in row.accepted))


def rows(scope: str) -> Iterator[config_values.Row]:
    """The configs of a scope that take effect."""
    for row in config_values.read_rows():
        key = TOPIC_CONFIGS.keys.get(row.name) if scope == "topic" else broker_key(listener_base(row.name) or row.name)
        if row.scope == scope and key is not None and key.takes_effect:
            yield row


class Node:
    """A running node, with a topic that is compacted and one that is not."""

    def __init__(self, running: RunningNode, client: WireClient) -> None:
        self.running = running
        self._client = client
        self._keys = 0

    async def set(self, kind: ConfigResourceType, resource: str, name: str, value: str | None) -> int:
        """Set a config, or remove it. Returns the error code."""
        config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        change = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])
        response = await self._client.call(IncrementalAlterConfigsRequest(resources=[change]), 1)
        return int(only(response.responses).error_code)

    async def work(self, reason: str) -> None:
        """Produce, fetch, clean, retain, flush and describe; requests may be refused, but are answered."""
        async with connected(self.running.port) as new:
            await new.call(MetadataRequest(topics=None), 9)
        for topic in ("plain", "compacted"):
            self._keys += 1
            records = batch(b"old" * 99, b"new" * 99, key=b"%d" % (self._keys % 9))
            produced = await produce(self._client, records, topic=topic)
            fetched = await fetch(self._client, max(produced.base_offset, 0), topic=topic)
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in (produced.error_code, fetched.error_code), reason
        broker = self.running.node.broker
        assert broker is not None
        with trio.move_on_after(0.02):  # a throttled pass takes longer
            await broker._cleaner.clean_dirtiest()
        await broker._housekeeping.apply_retention()
        await broker._housekeeping.flush_due()
        await broker._housekeeping.expire_producers()
        assert self.running.traced.of("handler_failed") == [], reason
        assert self.running.traced.of("dynamic_config_refused") == [], reason

    async def describe(self) -> None:
        described = [
            DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name="compacted"),
            DescribeConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name=""),
        ]
        response = await self._client.call(DescribeConfigsRequest(resources=described, include_synonyms=True), 4)
        assert [result.error_code for result in response.results] == [0, 0]

    async def set_quota(self, entity: dict[str, str | None], key: str, value: float | None) -> None:
        names = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        op = OpData(key=key, value=0.0 if value is None else value, remove=value is None)
        response = await self._client.call(AlterClientQuotasRequest(entries=[EntryData(entity=names, ops=[op])]), 1)
        assert only(response.entries).error_code == 0, f"{key}={value}"


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, **NODE) as running, connected(running.port) as client:
        await create_topic(client, "plain")
        await create_topic(client, "compacted", configs=COMPACTED)
        yield Node(running, client)


async def test_dynamic_configs_of_brokers(tmp_path: Path) -> None:
    count = 0
    async with serving(tmp_path) as node:
        for row in rows("cluster"):
            for value in edges(row):
                if await node.set(ConfigResourceType.BROKER, "", row.name, value) == 0:
                    count += 1
                    await node.work(f"{row.name}={value}")
            await node.describe()
            if await node.set(ConfigResourceType.BROKER, "", row.name, None) != 0:
                assert row.name == "min.insync.replicas", "it cannot be removed while ELR is in use"
                assert await node.set(ConfigResourceType.BROKER, "", row.name, "1") == 0
    assert count > 90


async def test_configs_of_topics(tmp_path: Path) -> None:
    count = 0
    async with serving(tmp_path) as node:
        for row in rows("topic"):
            for value in edges(row):
                for topic in ("plain", "compacted"):
                    count += await node.set(ConfigResourceType.TOPIC, topic, row.name, value) == 0
                await node.work(f"{row.name}={value}")
            await node.describe()
            for topic, configs in (("plain", {}), ("compacted", COMPACTED)):
                assert await node.set(ConfigResourceType.TOPIC, topic, row.name, configs.get(row.name)) == 0
    assert count > 150


async def test_configs_of_groups(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, connected(node.running.port) as member:

        async def join(member_id: str) -> int:
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=member_id,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=["plain"],
                topic_partitions=[],
            )
            return int((await member.call(request, 1)).error_code)

        await create_topic(member, "__consumer_offsets")
        with trio.fail_after(10):
            while await join("first") != 0:
                await trio.sleep(0.01)
        for row in config_values.read_rows():
            if row.scope == "group" and row.name.startswith("consumer."):
                for value in edges(row):
                    await node.set(ConfigResourceType.GROUP, "g", row.name, value)
                    assert await join(f"{row.name}-{value}") == 0, f"{row.name}={value}"
                await node.set(ConfigResourceType.GROUP, "g", row.name, None)
        assert node.running.traced.of("handler_failed") == []


async def test_quotas(tmp_path: Path) -> None:
    """One client is limited, another one goes on."""
    async with serving(tmp_path) as node:
        for row in config_values.read_rows():
            entity = {"client-id": {"client-id": "limited"}, "ip": {"ip": "127.0.0.1"}}.get(
                row.scope[len("quota of ") :]
            )
            for value in map(float, row.accepted if entity else ()):
                if entity is None or not math.isfinite(value):
                    continue
                await node.set_quota(entity, row.name, value)
                with trio.move_on_after(1):  # its address may be refused
                    async with connected(node.running.port, "limited") as limited:
                        for _ in range(2):
                            await limited.pipeline(
                                (MetadataRequest(topics=None), 9),
                                (produce_request(batch(b"value" * 99), topic="plain"), PRODUCE_VERSION),
                                (fetch_request(topic="plain"), FETCH_VERSION),
                            )
                        await trio.sleep(0.01)
                await node.set_quota(entity, row.name, None)
                await node.work(f"{row.name}={value}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("broker_heartbeat_interval_ms", -1),
        ("connections_max_idle_ms", -1),
        ("controller_quorum_retry_backoff_ms", 0),
        ("log_cleaner_backoff_ms", 0),
        ("log_cleaner_io_max_bytes_per_second", 0),
        ("max_connection_creation_rate", 0),
    ],
)
async def test_edges_in_the_file(tmp_path: Path, name: str, value: int) -> None:
    async with running_node(tmp_path, **{name: value}) as node, connected(node.port) as client:
        await create_topic(client, "plain")
        await client.call(MetadataRequest(topics=None), 9)
