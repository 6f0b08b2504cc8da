"""Directed links between processes: a fault holds up the data of one direction only."""

from collections.abc import AsyncIterator
from random import Random

import pytest
import trio
import trio.testing

from jepsen.processes.links import LinkConditions, Links
from jepsen.processes.ports import free_ports
from tests.support.linux import needs_loopback_addresses

pytestmark = needs_loopback_addresses


async def _echo(stream: trio.SocketStream) -> None:
    async for data in stream:
        await stream.send_all(data)


@pytest.fixture
async def links(nursery: trio.Nursery) -> AsyncIterator[tuple[Links, int]]:
    """Two nodes; b echoes the data that it receives."""
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
async def test_held_bytes_of_one_direction_arrive_when_the_gate_opens(
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


async def test_connection_without_a_server_is_reset(links: tuple[Links, int], nursery: trio.Nursery) -> None:
    (nobody,) = free_ports(1)
    away = Links({"a": "127.0.1.3", "b": "127.0.1.4"})
    await nursery.start(away.run, {("a", "b"): [nobody]})
    async with await trio.open_tcp_stream(away.seen_from("a")["b"], nobody) as stream:
        with pytest.raises(trio.BrokenResourceError):
            assert await stream.receive_some()


async def test_a_gate_that_two_have_shut_opens_when_both_open_it(links: tuple[Links, int]) -> None:
    pair = ("a", "b")
    async with await _connect(*links) as stream:
        links[0].shut([pair])
        links[0].shut([pair])
        links[0].open([pair])
        await stream.send_all(b"held")
        with trio.move_on_after(0.1) as scope:
            await stream.receive_some()
        assert scope.cancelled_caught
        links[0].open([pair])
        assert await stream.receive_some() == b"held"


async def test_a_connection_that_is_reset_breaks_on_both_sides(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        ended.set()

    (port,) = free_ports(1)
    links = Links({"a": "127.0.1.5"}, clients=["c"])
    listeners = await trio.open_tcp_listeners(port, host="127.0.1.5")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    await nursery.start(links.run, {("c", "a"): [port]})
    async with await trio.open_tcp_stream(links.seen_from("c")["a"], port) as stream:
        await trio.testing.wait_all_tasks_blocked(0.01)
        links.reset([("c", "a")])
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
    await ended.wait()
    nursery.cancel_scope.cancel()


async def test_bytes_take_as_long_as_the_link_conditions_say(links: tuple[Links, int]) -> None:
    links[0].change_conditions([("a", "b")], LinkConditions(Random(1), delays=(0.05, 0.1)))
    async with await _connect(*links) as stream:
        began = trio.current_time()
        await stream.send_all(b"slow")
        assert await stream.receive_some() == b"slow"
        assert trio.current_time() - began >= 0.05
        links[0].open_all()
        await stream.send_all(b"fair")
        assert await stream.receive_some() == b"fair"


def test_lost_segment_is_retransmitted() -> None:
    conditions = LinkConditions(Random(3), loss=0.5)
    taken = [conditions.seconds() for _ in range(1000)]
    assert 0.4 < sum(each == 0 for each in taken) / 1000 < 0.6
    assert {round(each, 1) for each in taken} >= {0.0, 0.2, 0.6, 1.4}
