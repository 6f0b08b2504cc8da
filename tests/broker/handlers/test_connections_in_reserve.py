"""Brokers and administrators are served whatever the limits of connections say; producers and consumers wait."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.net import reserve
from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.fetch import FetchRequest, ReplicaState
from broker.wire.api.list_offsets import ListOffsetsRequest
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.write_txn_markers import WriteTxnMarkersRequest
from tests.broker.handlers.test_dynamic_configs import AS_CLIENT, set_config
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

LIMITS = {
    "max.connections": "1",
    "listener.name.plaintext.max.connections": "1",
    "max.connections.per.ip": "1",
    "max.connections.per.ip.overrides": "127.0.0.1:0",
    "max.connection.creation.rate": "1",
    "listener.name.plaintext.max.connection.creation.rate": "1",
}


@asynccontextmanager
async def full(tmp_path: Path, name: str, **overrides: object) -> AsyncIterator[tuple[RunningNode, WireClient]]:
    """A node whose clients have used up the limit `name`.."""
    windows = {"quota_window_num": 2, "quota_window_size_seconds": 1}
    async with running_node(tmp_path, **windows, **overrides) as node, connected(node.port) as client:
        await client.call(AS_CLIENT, 5)
        await set_config(client, name, LIMITS[name])
        yield node, client


async def is_served(client: WireClient) -> bool:
    with trio.move_on_after(0.1):
        await client.call(AS_CLIENT, 5)
        return True
    return False


@pytest.mark.parametrize("name", LIMITS)
async def test_administrator_removes_any_limit_and_clients_that_wait_are_served(tmp_path: Path, name: str) -> None:
    async with (
        full(tmp_path, name) as (node, _),
        connected(node.port) as one,
        connected(node.port) as waiting,
        connected(node.port) as administrator,
    ):
        await is_served(one)
        await waiting.send(AS_CLIENT, 5)
        await administrator.call(MetadataRequest(topics=[]), 9)
        await waiting.expect_silence(0.1)
        await set_config(administrator, name, None)
        with trio.fail_after(5):
            await waiting.receive()


async def test_administrator_removes_the_quota_of_its_own_address(tmp_path: Path) -> None:
    entity = [EntityData(entity_type="ip", entity_name="127.0.0.1")]
    windows = {"quota_window_num": 2, "quota_window_size_seconds": 1}
    async with running_node(tmp_path, **windows) as node, connected(node.port) as client:
        for op in (
            OpData(key="connection_creation_rate", value=1),
            OpData(key="connection_creation_rate", remove=True),
        ):
            async with connected(node.port) as administrator:
                request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])])
                response = await administrator.call(request, 1)
                assert only(response.entries).error_code == 0
        assert await is_served(client)


@pytest.mark.parametrize(
    ("request_of_broker", "version"),
    [
        (FetchRequest(replica_id=2), 12),
        (FetchRequest(replica_state=ReplicaState(replica_id=2)), 17),
        (ListOffsetsRequest(replica_id=2), 5),
        (WriteTxnMarkersRequest(), 1),
    ],
)
async def test_requests_of_brokers_are_served_beyond_the_limits(
    tmp_path: Path, request_of_broker: object, version: int
) -> None:
    async with full(tmp_path, "max.connections") as (node, _), connected(node.port) as broker:
        await broker.call(request_of_broker, version)
        assert await is_served(broker), "the connection has left the reserve"


async def test_limits_of_0_in_the_file_let_brokers_and_administrators_in(tmp_path: Path) -> None:
    """Kafka accepts 0 in a file too, and then serves no connection."""
    limits = {"max_connections": 0, "max_connection_creation_rate": 0}
    async with running_node(tmp_path, **limits) as node, connected(node.port) as client:
        await client.call(MetadataRequest(topics=[]), 9)
        assert not await is_served(client)


async def test_new_connection_gets_in_when_the_reserve_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that wait are closed first, administrators last."""
    monkeypatch.setattr(reserve, "RESERVE_MAX", 4)
    async with full(tmp_path, "max.connections") as (node, _), AsyncExitStack() as stack:

        async def connect() -> WireClient:
            return await stack.enter_async_context(connected(node.port))

        first = await connect()
        await set_config(first, "log.retention.ms", "5")
        silent, *waiting = [await connect() for _ in range(3)]
        for client in waiting:
            await client.send(AS_CLIENT, 5)
        await silent.call(MetadataRequest(topics=[]), 9)
        for client in waiting:
            await (await connect()).call(MetadataRequest(topics=[]), 9)
            await client.expect_close()
        await (await connect()).call(MetadataRequest(topics=[]), 9)
        await silent.expect_close()
        await set_config(first, "max.connections", None)


async def test_waiting_client_takes_the_place_of_one_that_leaves(tmp_path: Path) -> None:
    async with full(tmp_path, "max.connections") as (node, first), connected(node.port) as waiting:
        await waiting.send(AS_CLIENT, 5)
        await waiting.expect_silence(0.1)
        await first.aclose()
        with trio.fail_after(5):
            await waiting.receive()
