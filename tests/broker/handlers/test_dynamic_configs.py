"""Dynamic configs of brokers take effect without a restart (KIP-226)."""

import time
from pathlib import Path

import pytest
import trio

from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_offsets import ListOffsetsRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

BROKER = 4
SET, DELETE = 0, 1
# A request of a producer or a consumer.
AS_CLIENT = ListOffsetsRequest(replica_id=-1)


async def set_config(client: WireClient, name: str, value: str | None, broker: str = "") -> None:
    operation = DELETE if value is None else SET
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(response.responses).error_code == 0


async def is_let_in(port: int) -> bool:
    """True if a new connection of a client is served. One beyond the limits waits."""
    with trio.move_on_after(0.3):
        async with connected(port) as client:
            await client.call(AS_CLIENT, 5)
        return True
    return False


@pytest.mark.parametrize(
    "name", ["max.connections", "max.connections.per.ip", "listener.name.plaintext.max.connections"]
)
async def test_limits_of_connections(node: RunningNode, client: WireClient, name: str) -> None:
    """`client` is the only connection apart from the broker's own one to the controller."""
    assert await is_let_in(node.port)
    await set_config(client, name, "1")
    assert not await is_let_in(node.port)
    await set_config(client, name, None)
    assert await is_let_in(node.port)


async def test_connection_that_waits_for_a_place_is_served_when_the_limit_rises(
    node: RunningNode, client: WireClient
) -> None:
    await set_config(client, "max.connections", "1")
    async with connected(node.port) as waiting, trio.open_nursery() as nursery:
        nursery.start_soon(waiting.call, AS_CLIENT, 5)
        await trio.sleep(0.05)
        await set_config(client, "max.connections", None)


async def test_overrides_of_the_limit_per_address(node: RunningNode, client: WireClient) -> None:
    await set_config(client, "max.connections.per.ip.overrides", "127.0.0.1:1")
    assert not await is_let_in(node.port)
    await set_config(client, "max.connections.per.ip.overrides", "127.0.0.1:5,::1:1")
    assert await is_let_in(node.port)


@pytest.mark.parametrize(
    "name", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
async def test_connections_per_second(tmp_path: Path, name: str) -> None:
    """KIP-612: with two windows of a second, as many connections as the limit are let in at once; the others wait."""
    windows = {"quota_window_num": 2, "quota_window_size_seconds": 1}
    async with running_node(tmp_path, **windows) as node, connected(node.port) as client:
        await set_config(client, name, "5")
        begun = trio.current_time()
        for _ in range(15):
            async with connected(node.port) as other:
                await other.call(AS_CLIENT, 5)
        assert 1 < trio.current_time() - begun < 8
        await set_config(client, name, None)
        assert await is_let_in(node.port)


async def test_how_long_idle_producers_are_remembered(tmp_path: Path) -> None:
    """The age is that of the producers' records."""
    an_hour_ago = int((time.time() - 3_600) * 1000)
    first = batch(b"value", producer_id=7, producer_epoch=0, base_sequence=0, timestamp=an_hour_ago)
    out_of_order = batch(b"value", producer_id=7, producer_epoch=0, base_sequence=5, timestamp=an_hour_ago)
    overrides = {"producer_id_expiration_check_interval_ms": 10, "log_initial_task_delay_ms": 0}
    async with running_node(tmp_path, **overrides) as node, connected(node.port) as client:
        await create_topic(client)
        assert (await produce(client, first)).error_code == 0
        await trio.sleep(0.1)
        assert (await produce(client, out_of_order)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        await set_config(client, "producer.id.expiration.ms", "60000")
        with trio.fail_after(10):
            while (await produce(client, out_of_order)).error_code != 0:
                await trio.sleep(0.01)
