"""Sockets whose links have faults, in one process: bytes stay whole while faults begin and end."""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import TypeAlias

import pytest
import trio
import trio.testing

from jepsen.testing.links import LinkConditions, LinkFault, NodeLinks
from jepsen.testing.links.active_link import ActiveLink

WITHIN_S = 60
HERE, THERE = 1, 2
FORTH, BACK = frozenset({(HERE, THERE)}), frozenset({(THERE, HERE)})
BOTH = FORTH | BACK


Connect: TypeAlias = Callable[[], Awaitable[tuple[trio.SocketStream, trio.SocketStream]]]


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[NodeLinks, Connect]]:
    """The links of node 1, and a function that connects it to node 2, which has the second stream of each pair."""
    ports: dict[int, int] = {}
    links = NodeLinks(HERE, ports, trio.current_time)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    ports[port] = THERE

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listener)

        async def connect() -> tuple[trio.SocketStream, trio.SocketStream]:
            trio.socket.set_custom_socket_factory(links)
            try:
                near = await trio.open_tcp_stream("127.0.0.1", port)
            finally:
                trio.socket.set_custom_socket_factory(None)
            far = await listener.accept()
            for stream in (near, far):
                stack.push_async_callback(trio.aclose_forcefully, stream)
            return near, far

        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(links.run)
                yield links, connect
                nursery.cancel_scope.cancel()


def begin(links: NodeLinks, pairs: frozenset[tuple[int, int]], fault_id: str = "a", **conditions: object) -> ActiveLink:
    links.begin(fault_id, LinkFault(LinkConditions(**conditions), pairs).as_words())  # type: ignore[arg-type]
    return links.faults[fault_id]


async def send_pieces(stream: trio.SocketStream, data: bytes, rng: Random) -> None:
    start = 0
    while start < len(data):
        size = rng.randint(1, 100_000)
        await stream.send_all(data[start : start + size])
        start += size
    await stream.send_eof()


async def receive_all(stream: trio.SocketStream) -> bytes:
    received = bytearray()
    while data := await stream.receive_some():
        received += data
    return bytes(received)


@pytest.mark.parametrize("seed", range(6))
async def test_bytes_are_whole_and_in_order_while_faults_begin_and_end(seed: int) -> None:
    rng = Random(seed)
    sent = {name: rng.randbytes(3_000_000) for name in ("forth", "back")}
    received: dict[str, bytes] = {}
    async with linked() as (links, connect):
        near, far = await connect()

        async def receive(name: str, stream: trio.SocketStream) -> None:
            received[name] = await receive_all(stream)

        async def disturb() -> None:
            for number in range(40):
                conditions = rng.choice(
                    [
                        {"cut": True},
                        {"latency_ms": rng.uniform(0, 5)},
                        {"jitter_ms": rng.uniform(0, 5)},
                        {"bytes_per_s": rng.randint(1_000_000, 50_000_000)},
                    ]
                )
                begin(links, rng.choice([FORTH, BACK, BOTH]), str(number), **conditions)
                await trio.sleep(rng.uniform(0, 0.01))
                for active in list(links.faults.values()):
                    if rng.random() < 0.7:
                        links.end(active)
            for active in list(links.faults.values()):
                links.end(active)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, "forth", far)
            nursery.start_soon(receive, "back", near)
            nursery.start_soon(send_pieces, near, sent["forth"], rng)
            nursery.start_soon(send_pieces, far, sent["back"], rng)
            nursery.start_soon(disturb)
        await near.aclose()
        await far.aclose()
        assert links.open_sockets == 0
    assert received == sent


async def test_bytes_and_the_end_of_a_closed_connection_arrive_after_a_cut() -> None:
    async with linked() as (links, connect):
        near, far = await connect()
        cut = begin(links, FORTH, cut=True)
        await near.send_all(b"late")
        await near.aclose()
        with trio.move_on_after(0.05) as waited:
            await far.receive_some()
        assert waited.cancelled_caught
        assert cut.held == 1
        links.end(cut)
        assert await receive_all(far) == b"late"
        assert (cut.fired, cut.held, links.open_sockets) == (1, 0, 0)


async def test_bytes_sent_while_the_last_fault_ends_arrive() -> None:
    """Repeated, because Trio runs the sender and the task of the link, which are ready together, in a random order."""
    async with linked() as (links, connect):
        near, far = await connect()
        for _ in range(50):
            active = begin(links, FORTH, latency_ms=1)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.send_all, b"a")
                await trio.lowlevel.checkpoint()
                links.end(active)
            assert await far.receive_some() == b"a"


async def test_reset_comes_in_place_of_the_first_byte_too_many() -> None:
    async with linked() as (links, connect):
        near, far = await connect()
        active = begin(links, FORTH, reset_after_bytes=10)
        await near.send_all(b"0123456789abc")
        assert await far.receive_some(10) == b"0123456789"
        with pytest.raises(trio.BrokenResourceError) as reset:
            await far.receive_some()
        assert isinstance(reset.value.__cause__, ConnectionResetError)
        with pytest.raises(trio.BrokenResourceError):
            await near.receive_some()
        assert active.resets == 1
        await near.aclose()
        assert links.open_sockets == 0


async def test_half_open_connection_swallows_and_is_reset_at_the_end() -> None:
    async with linked() as (links, connect):
        near, far = await connect()
        half_open = begin(links, FORTH, half_open=True)
        with pytest.raises(trio.BrokenResourceError):
            await far.receive_some()
        await near.send_all(b"a" * 10_000_000)
        with trio.move_on_after(0.05) as waited:
            await near.receive_some()
        assert waited.cancelled_caught
        links.end(half_open)
        with pytest.raises(trio.BrokenResourceError):
            await near.receive_some()


async def test_waiting_receive_fails_when_its_side_is_lost() -> None:
    async with linked() as (links, connect):
        near, far = await connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect_reset, near)
            await trio.testing.wait_all_tasks_blocked()
            half_open = begin(links, BACK, half_open=True)
        await near.aclose()
        await far.send_all(b"a")  # the other side does not know
        links.end(half_open)
        with pytest.raises(trio.BrokenResourceError):
            await far.receive_some()
        assert links.open_sockets == 0


async def _expect_reset(stream: trio.SocketStream) -> None:
    with pytest.raises(trio.BrokenResourceError) as reset:
        await stream.receive_some()
    assert isinstance(reset.value.__cause__, OSError)
    assert reset.value.__cause__.errno == errno.ECONNRESET


@pytest.mark.parametrize("conditions", [{"black_hole": True}, {"half_open": True}], ids=lambda each: next(iter(each)))
async def test_connection_that_is_reset_takes_options_until_its_owner_closes_it(conditions: dict[str, bool]) -> None:
    """As with the kernel. A connection of a client sets one before it closes, and an error of that ended its node."""
    options = (trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
    async with linked() as (links, connect):
        near, _ = await connect()
        active = begin(links, FORTH, **conditions)
        await near.send_all(b"a")
        await trio.testing.wait_all_tasks_blocked()
        links.end(active)
        await _expect_reset(near)
        near.setsockopt(*options)
        await near.aclose()
        with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
            near.setsockopt(*options)


@pytest.mark.parametrize("pairs", [FORTH, BACK])
async def test_connect_waits_for_both_directions(pairs: frozenset[tuple[int, int]]) -> None:
    async with linked() as (links, connect):
        black_hole = begin(links, pairs, black_hole=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert black_hole.held == 1
            links.end(black_hole)


async def test_connection_that_is_closed_in_a_black_hole_is_reset_at_its_end() -> None:
    async with linked() as (links, connect):
        near, far = await connect()
        black_hole = begin(links, BOTH, black_hole=True)
        await near.aclose()
        with trio.move_on_after(0.05) as waited:
            await far.receive_some()
        assert waited.cancelled_caught
        links.end(black_hole)
        with pytest.raises(trio.BrokenResourceError):
            await far.receive_some()
        assert links.open_sockets == 0


def test_same_seed_draws_the_same_jitter() -> None:
    def arrivals(seed: int) -> list[float]:
        fault = LinkFault(LinkConditions(latency_ms=200, jitter_ms=50, seed=seed), FORTH)
        active = ActiveLink("a", fault, HERE, lambda active: None)
        return [active.arrival(0.0, 1, is_inbound=False) for _ in range(100)]

    assert arrivals(1) == arrivals(1) != arrivals(2)
    assert all(0.2 <= each <= 0.25 for each in arrivals(1))


def test_bandwidth_is_that_of_all_connections_in_each_direction() -> None:
    active = ActiveLink("a", LinkFault(LinkConditions(bytes_per_s=1_000), BOTH), HERE, lambda active: None)
    assert [active.arrival(0.0, 500, is_inbound=False) for _ in range(3)] == [0.5, 1.0, 1.5]
    assert active.arrival(0.0, 500, is_inbound=True) == 0.5
    assert active.arrival(10.0, 500, is_inbound=True) == 10.5
