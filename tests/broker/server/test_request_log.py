"""The log of requests: slow ones, and on demand those of clients and topics, switched while the node runs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.server.shortcut_tables import ClientKind
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode
from tests.support.requests import (
    PRODUCE_VERSION,
    batch,
    create_topic,
    fetch,
    produce,
    produce_request,
)
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

PATIENCE_S = 10.0
SECRET = b"content of a record"
PARTS = ("queue_ms", "local_ms", "remote_ms", "response_queue_ms", "response_send_ms")


async def configure(node: RunningNode, **configs: str) -> None:
    """Set configs of the broker while it runs; an empty text removes one."""
    altered = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0 if value else 1, value=value or None)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=altered)
    async with connected(node.port, client_id="admin") as admin:
        response = await admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(response.responses).error_code == ErrorCode.NONE, response


async def until_logged(client: WireClient, node: RunningNode, kind: str) -> None:
    """Send requests until one is logged."""
    with trio.fail_after(PATIENCE_S):
        while not node.traced.of(kind):
            await client.call(MetadataRequest(topics=[]), 12)


@asynccontextmanager
async def logging_node(directory: Path, **configs: str) -> AsyncIterator[tuple[RunningNode, WireClient]]:
    """A node with a topic, and a client named "app"."""
    async with running_node(directory, **configs) as node, connected(node.port, client_id="app") as client:
        await create_topic(client)
        yield node, client
        assert not node.traced.of("handler_failed")


def logged(node: RunningNode) -> list[Mapping[str, Any]]:
    return node.traced.of("request_logged")


async def test_nothing_is_logged_without_the_configs(tmp_path: Path) -> None:
    async with logging_node(tmp_path) as (node, client):
        await produce(client, batch(b"value"))
        assert not logged(node)
        assert not node.traced.of("slow_request")


async def test_requests_of_a_client_are_logged_from_a_change_on_and_until_the_next(tmp_path: Path) -> None:
    async with logging_node(tmp_path) as (node, client), connected(node.port, client_id="other") as other:
        for _ in range(3):  # the later ones take a shortcut
            await produce(client, batch(SECRET))
        await configure(node, request_log_client_ids="someone,app")
        await until_logged(client, node, "request_logged")
        node.traced.events.clear()
        for _ in range(3):
            await produce(client, batch(SECRET))
            await produce(other, batch(SECRET))
        assert [(each["api"], each["client"], each["peer"]) for each in logged(node)] == [
            ("Produce", "app", "127.0.0.1")
        ] * 3
        first = logged(node)[0]
        assert first["version"] == PRODUCE_VERSION
        assert (first["listener"], first["principal"]) == ("PLAINTEXT", "User:ANONYMOUS")
        assert first["bytes"] > len(SECRET)
        assert SECRET.decode() not in repr(logged(node))
        await configure(node, request_log_client_ids="")
        node.traced.events.clear()
        with trio.fail_after(PATIENCE_S):
            while True:
                await produce(client, batch(SECRET))
                if not logged(node):
                    break
                node.traced.events.clear()


async def test_requests_about_a_topic_are_logged_by_name_and_by_id(tmp_path: Path) -> None:
    async with logging_node(tmp_path, request_log_topics="topic,missing") as (node, client):
        assert [each["api"] for each in logged(node)] == ["CreateTopics"]
        node.traced.events.clear()
        await produce(client, batch(SECRET))
        await fetch(client)
        asked = ListOffsetsTopic(name="topic", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        await client.call(ListOffsetsRequest(topics=[asked]), 6)
        topics = [MetadataRequestTopic(name=name) for name in ("other", "missing", "topic")]
        await client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="other")]), 12)
        assert [(each["api"], each["topics"]) for each in logged(node)] == [
            ("Produce", ["topic"]),
            ("Fetch", ["topic"]),
            ("ListOffsets", ["topic"]),
            ("Metadata", ["missing", "topic"]),
        ]


async def test_large_requests_are_logged(tmp_path: Path) -> None:
    async with logging_node(tmp_path, request_log_topics="topic") as (node, client):
        node.traced.events.clear()
        topics = [MetadataRequestTopic(name=f"t{index:0100}") for index in range(500)]
        topics.append(MetadataRequestTopic(name="topic"))
        await client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        assert [(each["api"], each["topics"]) for each in logged(node)] == [("Metadata", ["topic"])]


@pytest.mark.parametrize("listener", [{}, {"http_listener": "127.0.0.1:0"}])
async def test_slow_requests_are_logged_with_the_parts_of_their_time(tmp_path: Path, listener: dict[str, str]) -> None:
    """With metrics, which measure a sample of the requests, and without them."""
    async with logging_node(tmp_path, **listener) as (node, client):
        await configure(node, request_log_slow_ms="0")
        await until_logged(client, node, "slow_request")
        node.traced.events.clear()
        for _ in range(50):
            await produce(client, batch(SECRET))
        slow = [each for each in node.traced.of("slow_request") if each["api"] == "Produce"]
        assert len(slow) == 50, "every request is measured"
        for each in slow:
            assert (each["client"], each["peer"], each["listener"]) == ("app", "127.0.0.1", "PLAINTEXT")
            assert each["throttle_ms"] == 0
            assert all(each[part] >= 0 for part in PARTS)
            assert each["total_ms"] == pytest.approx(sum(each[part] for part in PARTS), abs=0.5)
        await configure(node, request_log_slow_ms="-1")
        node.traced.events.clear()
        with trio.fail_after(PATIENCE_S):
            while True:
                await produce(client, batch(SECRET))
                if not node.traced.of("slow_request"):
                    break
                node.traced.events.clear()


async def test_fetch_that_waits_for_records_is_not_slow(tmp_path: Path) -> None:
    async with logging_node(tmp_path, request_log_slow_ms="400") as (node, client):
        await fetch(client, max_wait_ms=600, min_bytes=1)
        assert not [each for each in node.traced.of("slow_request") if each["api"] == "Fetch"]


async def test_requests_take_shortcuts_unless_they_are_logged(tmp_path: Path) -> None:
    async with logging_node(tmp_path) as (node, client):
        assert node.node.broker is not None
        dispatcher = node.node.broker.dispatcher
        assert dispatcher is not None
        table = dispatcher.shortcuts.table(ClientKind("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
        request = produce_request(batch(SECRET))
        for _ in range(3):
            await client.call(request, PRODUCE_VERSION)
        assert table
        await configure(node, request_log_topics="other")
        for _ in range(3):
            await client.call(request, PRODUCE_VERSION)
        assert not table
