"""One link to a broker: callers share an attempt to connect, and `close` ends what no caller waits for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import trio
import trio.testing

from broker.client.brokers import BrokerLink
from broker.client.config import ClientConfig, read_config
from broker.client.connection_security import ConnectionSecurity
from broker.client.environment import Environment
from broker.client.reachability import Destination, Reachability
from broker.client.types import Node
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.metadata import MetadataRequest, MetadataResponse
from tests.support.scripted_node import ScriptedNode, scripted_node

WITHIN_S = 30.0


@attrs.define
class HeldServer:
    """A server that reads nothing of a connection until `release`: each attempt to connect stays under way."""

    node: ScriptedNode
    port: int
    arrived: trio.Event = attrs.field(factory=trio.Event)
    release: trio.Event = attrs.field(factory=trio.Event)


@asynccontextmanager
async def held_server() -> AsyncIterator[HeldServer]:
    async with scripted_node(lambda _: MetadataResponse()) as node, trio.open_nursery() as nursery:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        server: HeldServer

        async def serve(stream: trio.SocketStream) -> None:
            server.arrived.set()
            await server.release.wait()
            await node.serve(stream)

        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        server = HeldServer(node, listeners[0].socket.getsockname()[1])
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def link_to(port: int) -> AsyncIterator[tuple[BrokerLink, trio.Nursery]]:
    config = read_config(ClientConfig, f"127.0.0.1:{port}", {"reconnect.backoff.ms": 5})
    with trio.fail_after(WITHIN_S):
        async with trio.open_nursery() as nursery:
            yield (
                BrokerLink(
                    Node(1, "127.0.0.1", port),
                    config,
                    Environment(rng=Random(1)),
                    nursery,
                    Reachability(""),
                    ConnectionSecurity(),
                    is_of_controllers=False,
                    destination=Destination(config, lambda: None, nursery.cancel_scope.cancel),
                ),
                nursery,
            )
            nursery.cancel_scope.cancel()


async def give_up_waiting(link: BrokerLink, server: HeldServer) -> None:
    """A caller begins an attempt to connect, and is cancelled."""
    async with trio.open_nursery() as caller:
        caller.start_soon(link.connected)
        await server.arrived.wait()
        caller.cancel_scope.cancel()


async def test_attempt_that_no_caller_waits_for_any_more_ends_in_a_connection() -> None:
    async with held_server() as server, link_to(server.port) as (link, _):
        await give_up_waiting(link, server)
        server.release.set()
        while link.broker is None:
            await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked()
        broker = await link.connected()
        await broker.call(MetadataRequest())
        assert server.node.connections == 1


async def test_connection_that_is_made_after_close_is_closed_unless_a_caller_waits() -> None:
    async with held_server() as server, link_to(server.port) as (link, _):
        await give_up_waiting(link, server)
        link.close()
        server.release.set()
        await server.node.wait_for_end()
        assert link.broker is None


async def test_caller_that_waits_while_the_link_is_closed_gets_its_connection() -> None:
    async with held_server() as server, link_to(server.port) as (link, nursery):

        async def use() -> None:
            broker = await link.connected()
            await broker.call(MetadataRequest())
            used.set()

        used = trio.Event()
        nursery.start_soon(use)
        await server.arrived.wait()
        link.close()
        server.release.set()
        await used.wait()
        assert server.node.ends == []


async def test_close_ends_a_connection_that_is_made() -> None:
    async with held_server() as server, link_to(server.port) as (link, _):
        server.release.set()
        broker = await link.connected()
        link.close()
        await server.node.wait_for_end()
        while not broker.is_lost:
            await trio.sleep(0.001)
        assert link.broker is None
