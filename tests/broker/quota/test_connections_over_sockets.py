"""The quota on new connections of an address, set with AlterClientQuotas (KIP-612)."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.wire.api.metadata import MetadataRequest
from tests.broker.handlers.test_client_quotas import alteration, altered, wait_described
from tests.broker.quota.test_quotas_over_sockets import WINDOWS, set_quota
from tests.support.linux import needs_loopback_addresses
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import connected

HOME: dict[str, str | None] = {"ip": "127.0.0.1"}


@pytest.fixture
async def limiting_node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, **WINDOWS) as node:
        yield node


async def closes_after(port: int) -> float | None:
    """The seconds until the node closes a new connection; None if it serves it."""
    begun = trio.current_time()
    try:
        async with connected(port) as client:
            await client.call(MetadataRequest(topics=[]), 9)
    except (OSError, EOFError, trio.BrokenResourceError):
        return trio.current_time() - begun
    return None


@needs_loopback_addresses
async def test_address_that_connects_too_often_is_held_and_others_are_served(limiting_node: RunningNode) -> None:
    async with connected(limiting_node.port) as client:
        await set_quota(limiting_node, HOME, connection_creation_rate=5)
        outcomes = [await closes_after(limiting_node.port) for _ in range(8)]
        refused = [each for each in outcomes if each is not None]
        assert refused
        assert all(0.05 < each < 3 for each in refused), "a refused connection is not closed at once"
        await client.call(MetadataRequest(topics=[]), 9)

        assert await trio.to_thread.run_sync(connects_from, "127.0.0.2", limiting_node.port)


def connects_from(address: str, port: int) -> bool:
    """True if a node serves a connection of this address."""
    request = (22).to_bytes(4) + b"\0\x12\0\0" + b"\0\0\0\x07" + b"\0\x0ctest-address"
    with socket.create_connection(("127.0.0.1", port), 5, source_address=(address, 0)) as sock:
        sock.sendall(request)
        return bool(sock.recv(4))


async def test_connections_are_served_again_when_the_quota_is_removed(limiting_node: RunningNode) -> None:
    async with connected(limiting_node.port) as admin:
        await altered(admin, alteration({"ip": None}, connection_creation_rate=1.0))
        await wait_described(admin, 1)
        outcomes = [await closes_after(limiting_node.port) for _ in range(3)]
        assert any(each is not None for each in outcomes)
        await altered(admin, alteration({"ip": None}, connection_creation_rate=None))
        await wait_described(admin, 0)
        assert [await closes_after(limiting_node.port) for _ in range(5)] == [None] * 5
