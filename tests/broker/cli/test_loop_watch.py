"""A hold of the event loop is reported with the task that caused it."""

import struct
import time
from collections.abc import AsyncIterator

import pytest
import trio
import trio.lowlevel

from broker.cli.loop_watch import LOOK_S, LoopWatch
from broker.net.acceptor import Acceptor
from broker.net.admission import ConnectionLimits
from broker.net.connection import Connection
from broker.net.reply import Reply
from kraft.env import kernel_socket
from tests.support.running_node import Traced

DESCRIBE_CONFIGS = b"\0\x20\0\4"


def hold(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Holding:
    """A service whose requests block the loop for 300 ms."""

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        hold(0.3)
        return b"answer"


@pytest.fixture
async def traced(nursery: trio.Nursery) -> AsyncIterator[Traced]:
    traced = Traced()
    nursery.start_soon(LoopWatch(traced).run)
    await trio.sleep(2 * LOOK_S)
    traced.events.clear()  # on a busy machine, earlier holds may have been reported
    yield traced
    nursery.cancel_scope.cancel()


async def until_told(traced: Traced) -> dict[str, object]:
    with trio.fail_after(10):
        while not (told := traced.of("loop_held")):
            await trio.sleep(LOOK_S)
    return max(told, key=lambda fields: int(str(fields["milliseconds"])))


async def test_a_request_that_holds_the_loop_is_named(traced: Traced, nursery: trio.Nursery) -> None:
    limits = ConnectionLimits(1_000_000, connections_max=8, connections_per_ip_max=8, idle_ms_max=600_000)
    acceptor = Acceptor(lambda: True, limits, kernel_socket, lambda connection: None, lambda *refused: None)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(acceptor.run)
    nursery.start_soon(acceptor.serve, "PLAINTEXT", listeners, Holding())
    async with await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1]) as stream:
        await stream.send_all(struct.pack(">i", 10_000) + DESCRIBE_CONFIGS + bytes(9_996))
        assert await stream.receive_some() == b"answer"
    told = await until_told(traced)
    assert int(str(told["milliseconds"])) >= 250
    assert int(str(told["cpu_milliseconds"])) > 0
    cause = str(told["cause"])
    assert cause.startswith("DescribeConfigs (API 32) version 4 of 10,000 bytes from 127.0.0.1: broker.net."), cause
    assert " pump in broker.net." in cause


async def test_a_task_that_waits_in_the_kernel_is_named(traced: Traced) -> None:
    time.sleep(0.3)  # noqa: ASYNC251 - what is to be noticed
    told = await until_told(traced)
    assert int(str(told["milliseconds"])) >= 250
    assert int(str(told["cpu_milliseconds"])) < 200
    assert "test_a_task_that_waits_in_the_kernel_is_named" in str(told["cause"])
    if int(str(told["cpu_milliseconds"])) < 20:
        assert str(told["cause"]).startswith("a wait for a processor, as on a busy machine, or for the kernel, during ")


async def test_a_loop_that_is_not_held_is_not_told_of(traced: Traced) -> None:
    """Fifty short steps are not one hold. On a busy machine, the process may wait for a CPU, which is
    reported as such.
    """
    for _ in range(50):
        hold(0.01)
        await trio.lowlevel.checkpoint()
    held = [fields for fields in traced.of("loop_held") if int(str(fields["cpu_milliseconds"])) >= 90]
    assert held == []
