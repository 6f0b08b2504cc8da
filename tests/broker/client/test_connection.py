"""A client's connection: requests pipelined by many tasks, responses in order, and lost connections."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.client import Connection, ConnectionLost, encode_request
from broker.client.connection import IN_FLIGHT_MAX
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.support.scripted_node import Answer, Script, ScriptedNode, scripted_node


def ask(number: int) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id=number)


def echo(request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=request.broker_id)


def silence(request: AllocateProducerIdsRequest) -> None:
    pass


def payload(number: int, correlation_id: int) -> bytes:
    whole = encode_request(ask(number), 0, "test")
    return whole[:4] + correlation_id.to_bytes(4) + whole[8:]


@asynccontextmanager
async def connected_to(script: Script, *, timeout_ms: float = 5_000) -> AsyncIterator[tuple[ScriptedNode, Connection]]:
    """A connection that is open within the block."""
    async with scripted_node(script) as node, trio.open_nursery() as nursery:
        connection = await Connection.open(
            "127.0.0.1", node.port, "test", connect_timeout_ms=1_000, request_timeout_ms=timeout_ms
        )

        async def run() -> None:
            with pytest.raises(ConnectionLost):
                await connection.run()

        nursery.start_soon(run)
        yield node, connection
        nursery.cancel_scope.cancel()


async def test_every_task_gets_its_own_answer(jumping_clock: MockClock) -> None:
    async with connected_to(echo) as (_, connection), trio.open_nursery() as nursery:

        async def call(number: int) -> None:
            assert (await connection.call(ask(number), 0)).producer_id_start == number

        for number in range(3 * IN_FLIGHT_MAX):
            nursery.start_soon(call, number)


async def test_a_payload_keeps_the_correlation_id_that_it_came_with(jumping_clock: MockClock) -> None:
    async with connected_to(echo) as (_, connection):
        await connection.call(ask(1), 0)
        for correlation_id in (0, 77, 0xFFFFFFFF):
            answer = await connection.exchange(payload(2, correlation_id))
            assert answer[:4] == correlation_id.to_bytes(4)


async def test_no_more_than_so_many_requests_wait_for_an_answer(jumping_clock: MockClock) -> None:
    answers = trio.Event()

    async def later(request: AllocateProducerIdsRequest) -> Answer:
        await answers.wait()
        return echo(request)

    async with connected_to(later) as (node, connection), trio.open_nursery() as nursery:
        asked = []

        async def call(number: int) -> None:
            asked.append((await connection.call(ask(number), 0)).producer_id_start)

        for number in range(IN_FLIGHT_MAX + 10):
            nursery.start_soon(call, number)
        await wait_all_tasks_blocked(0.01)
        assert len(connection._unsent) + len(connection._sent) == IN_FLIGHT_MAX
        answers.set()
        await node.wait_for(IN_FLIGHT_MAX + 10)
    assert sorted(asked) == list(range(IN_FLIGHT_MAX + 10))


async def test_a_response_to_a_cancelled_call_is_dropped(jumping_clock: MockClock) -> None:
    answers = trio.Event()

    async def later(request: AllocateProducerIdsRequest) -> Answer:
        await answers.wait()
        return echo(request)

    async with connected_to(later) as (node, connection):
        with trio.move_on_after(0.02) as scope:
            await connection.call(ask(1), 0)
        assert scope.cancelled_caught
        answers.set()
        assert (await connection.call(ask(2), 0)).producer_id_start == 2
        assert len(node.requests) == 2


async def test_a_request_that_is_cancelled_before_it_is_sent_never_is(jumping_clock: MockClock) -> None:
    async with scripted_node(echo) as node, trio.open_nursery() as nursery:
        connection = await Connection.open(
            "127.0.0.1", node.port, "test", connect_timeout_ms=1_000, request_timeout_ms=1_000
        )
        with trio.move_on_after(0.01):
            await connection.call(ask(1), 0)

        async def run() -> None:
            with pytest.raises(ConnectionLost):
                await connection.run()

        nursery.start_soon(run)
        assert (await connection.call(ask(2), 0)).producer_id_start == 2
        assert [request.broker_id for request in node.requests] == [2]
        node.drop_connections()


async def test_when_the_node_is_gone_everybody_hears_of_it_at_once(jumping_clock: MockClock) -> None:
    async with connected_to(silence) as (node, connection), trio.open_nursery() as nursery:

        async def call(number: int) -> None:
            with pytest.raises(ConnectionLost):
                await connection.call(ask(number), 0)

        for number in range(IN_FLIGHT_MAX + 10):
            nursery.start_soon(call, number)
        await node.wait_for(IN_FLIGHT_MAX)
        node.drop_connections()
        with trio.fail_after(1):
            await call(-1)


async def test_an_overdue_answer_loses_the_connection_for_all(jumping_clock: MockClock) -> None:
    async with connected_to(silence, timeout_ms=50) as (_, connection), trio.open_nursery() as nursery:

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="no answer in time"):
                await connection.call(ask(1), 0)

        with trio.fail_after(1):
            nursery.start_soon(call)
            await call()


async def test_a_request_that_is_made_before_the_connection_runs_may_be_overdue_too(jumping_clock: MockClock) -> None:
    async with scripted_node(silence) as node, trio.open_nursery() as nursery:
        connection = await Connection.open(
            "127.0.0.1", node.port, "test", connect_timeout_ms=1_000, request_timeout_ms=50
        )

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="no answer in time"):
                await connection.call(ask(1), 0)

        nursery.start_soon(call)
        await wait_all_tasks_blocked()
        with trio.fail_after(1), pytest.raises(ConnectionLost):
            await connection.run()


async def test_request_timeout_counts_from_the_oldest_request(jumping_clock: MockClock) -> None:
    async with connected_to(echo, timeout_ms=100) as (_, connection):
        for _ in range(4):
            await connection.call(ask(1), 0)
            await trio.sleep(0.05)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((8).to_bytes(4) + (99).to_bytes(4) + b"\0\0\0\0", "a response without a request"),
        ((1 << 30).to_bytes(4), "a response of"),
        ((2).to_bytes(4) + b"\0\0", "a response without a request"),
    ],
)
async def test_a_node_that_talks_nonsense_is_left(jumping_clock: MockClock, answer: bytes, reason: str) -> None:
    async with connected_to(lambda request: answer) as (_, connection):
        with pytest.raises(ConnectionLost, match=reason):
            await connection.call(ask(1), 0)


async def test_an_answer_that_cannot_be_read_costs_its_request_only(jumping_clock: MockClock) -> None:
    def script(request: AllocateProducerIdsRequest) -> Answer:
        return (5).to_bytes(4) + bytes(5) if request.broker_id == 1 else echo(request)

    async with connected_to(script) as (_, connection):
        with pytest.raises(ConnectionLost, match="cannot be read"):
            await connection.call(ask(1), 0)
        assert (await connection.call(ask(2), 0)).producer_id_start == 2


async def test_closing_with_open_requests_resets_the_connection(jumping_clock: MockClock) -> None:
    """Then the kernel does not deliver bytes later that were still in its buffer."""
    async with scripted_node(silence) as node:
        connection = await Connection.open(
            "127.0.0.1", node.port, "test", connect_timeout_ms=1_000, request_timeout_ms=1_000
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            with trio.move_on_after(0.02):
                await connection.call(ask(1), 0)
            nursery.cancel_scope.cancel()
        with pytest.raises(ConnectionLost, match="given up"):
            await connection.call(ask(1), 0)
        await node.wait_for_end()
        assert node.ends == ["reset"]


async def test_system_that_refuses_options_of_a_reset_connection_does_not_hide_its_loss(
    jumping_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As macOS does."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    async with connected_to(silence) as (_, connection):
        monkeypatch.setattr(trio.SocketStream, "setsockopt", refuse)
        connection.set_buffer_sizes(65_536, 65_536)
        with pytest.raises(ConnectionLost, match="no answer in time"):
            await connection.call(ask(1), 0)


async def test_opening_a_connection_to_a_closed_port_raises_connection_lost(jumping_clock: MockClock) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    with pytest.raises(ConnectionLost):
        await Connection.open("127.0.0.1", port, "test", connect_timeout_ms=1_000, request_timeout_ms=1_000)


@pytest.mark.parametrize("host", ["two..dots", "x" * 300 + ".example", "\udcff", ""])
async def test_a_host_name_that_cannot_be_one_is_a_server_that_cannot_be_reached(host: str) -> None:
    with pytest.raises(ConnectionLost):
        await Connection.open(host, 9092, "test", connect_timeout_ms=5_000, request_timeout_ms=1_000)


@pytest.mark.parametrize("port", [-1, 65_536])
async def test_a_port_that_cannot_be_one_is_a_server_that_cannot_be_reached(port: int) -> None:
    with pytest.raises(ConnectionLost):
        await Connection.open("127.0.0.1", port, "test", connect_timeout_ms=5_000, request_timeout_ms=1_000)
