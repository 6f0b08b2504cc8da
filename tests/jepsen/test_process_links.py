"""Directed links between processes: what one has to say to another is held up, and nothing else."""

from collections.abc import AsyncIterator

import pytest
import trio

from jepsen.processes.links import Links
from jepsen.processes.ports import free_ports


async def _echo(stream: trio.SocketStream) -> None:
    async for data in stream:
        await stream.send_all(data)


@pytest.fixture
async def links(nursery: trio.Nursery) -> AsyncIterator[tuple[Links, int]]:
    """Two nodes; b echoes what it gets."""
    links = Links({"a": "127.0.1.1", "b": "127.0.1.2"})
    (port,) = free_ports(1)
    listeners = await trio.open_tcp_listeners(port, host="127.0.1.2")
    nursery.start_soon(trio.serve_listeners, _echo, listeners)
    await nursery.start(links.run, {("a", "b"): [port]})
    yield links, port
    nursery.cancel_scope.cancel()


async def _connect(links: Links, port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream(links.seen_from("a")["b"], port)


async def test_a_node_reaches_another_at_an_address_of_its_own(links: tuple[Links, int]) -> None:
    assert links[0].seen_from("a")["a"] == "127.0.1.1"
    assert links[0].seen_from("a")["b"] != links[0].seen_from("b")["b"]
    async with await _connect(*links) as stream:
        await stream.send_all(b"hello")
        assert await stream.receive_some() == b"hello"


@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a")])
async def test_what_is_held_up_in_one_direction_arrives_when_the_gate_opens(
    links: tuple[Links, int], pair: tuple[str, str]
) -> None:
    async with await _connect(*links) as stream:
        await stream.send_all(b"before")
        assert await stream.receive_some() == b"before"
        links[0].shut([pair])
        await stream.send_all(b"during")
        with trio.move_on_after(0.1) as scope:
            await stream.receive_some()
        assert scope.cancelled_caught
        links[0].open_all()
        assert await stream.receive_some() == b"during"


async def test_a_connection_to_nobody_is_reset(links: tuple[Links, int], nursery: trio.Nursery) -> None:
    (nobody,) = free_ports(1)
    away = Links({"a": "127.0.1.3", "b": "127.0.1.4"})
    await nursery.start(away.run, {("a", "b"): [nobody]})
    async with await trio.open_tcp_stream(away.seen_from("a")["b"], nobody) as stream:
        with pytest.raises(trio.BrokenResourceError):
            assert await stream.receive_some()
