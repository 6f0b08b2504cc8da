"""Waiting responses that are completed by a timer, or by another client's request."""

from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker.net.acceptor import Acceptor
from broker.net.admission import ConnectionLimits
from broker.net.completion import RequestWait
from broker.server.context import RequestContext
from broker.server.dispatch import Dispatcher
from broker.server.handler import Handler
from broker.server.scheduler import Work
from broker.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.env import Env, RealDisk, kernel_socket, real_env
from tests.support.running_node import Traced
from tests.support.wire_client import connected

UNENCODABLE = 1 << 20


class ParkedHeartbeats:
    """A service whose Heartbeat responses are completed by the test."""

    def __init__(self) -> None:
        self.traced = Traced()
        self.parked: list[RequestWait[int]] = []
        self.port = 0

    def park(self, context: RequestContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        wait: RequestWait[int] = RequestWait()
        self.parked.append(wait)
        code = yield from wait
        return HeartbeatResponse(error_code=code)

    async def until_parked(self, count: int) -> None:
        with trio.fail_after(20):
            while len(self.parked) < count:
                await trio.sleep(0.01)

    def complete(self, index: int, error_code: int) -> None:
        self.parked[index].complete(error_code)


@pytest.fixture
async def heartbeats(nursery: trio.Nursery) -> AsyncIterator[ParkedHeartbeats]:
    service = ParkedHeartbeats()
    services: Any = SimpleNamespace(env=Env(RealDisk(), Random(), real_env(service.traced).wall, service.traced))
    dispatcher = Dispatcher(services, [Handler(HeartbeatRequest, service.park)], nursery)
    limits = ConnectionLimits(1 << 20, connections_max=8, connections_per_ip_max=8, idle_ms_max=600_000)
    acceptor = Acceptor(lambda: True, limits, kernel_socket, lambda _: None, lambda *_: None)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(acceptor.run)
    nursery.start_soon(acceptor.serve, "PLAINTEXT", listeners, dispatcher)
    service.port = listeners[0].socket.getsockname()[1]
    yield service
    nursery.cancel_scope.cancel()


async def test_failure_to_answer_later_closes_the_connection_alone(heartbeats: ParkedHeartbeats) -> None:
    async with connected(heartbeats.port) as failing, connected(heartbeats.port) as other:
        await failing.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(1)
        await other.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(2)
        heartbeats.complete(0, UNENCODABLE)
        heartbeats.complete(1, 27)
        await failing.expect_close()
        assert "WireError" in str(heartbeats.traced.of("handler_failed")[0]["error"])
        assert (await other.receive()).error_code == 27


async def test_answer_to_a_client_that_has_gone_does_nothing(heartbeats: ParkedHeartbeats) -> None:
    async with connected(heartbeats.port) as client:
        await client.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(1)
    with trio.fail_after(20):
        while not heartbeats.parked[0].done:
            await trio.sleep(0.01)
    heartbeats.complete(0, UNENCODABLE)
    assert not heartbeats.traced.of("handler_failed")
