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
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

BROKER = 4
SET, DELETE = 0, 1


async def set_config(client: WireClient, name: str, value: str | None, broker: str = "") -> None:
    operation = DELETE if value is None else SET
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(response.responses).error_code == 0


async def is_let_in(port: int) -> bool:
    """True if a connection is kept open. One beyond the limits is closed at once."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        with trio.move_on_after(0.3):
            try:
                return bool(await stream.receive_some())
            except trio.BrokenResourceError:
                return False
        return True


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
async def test_limits_of_connections(node: RunningNode, client: WireClient, name: str) -> None:
    assert await is_let_in(node.port)
    # The broker's own connection to the controller also counts.
    await set_config(client, name, "1", broker="1" if name == "max.connections" else "")
    assert not await is_let_in(node.port)
    await set_config(client, name, None, broker="1" if name == "max.connections" else "")
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
