"""Handlers that wait: for a completion, for a coroutine, and for the event loop."""

from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker.net.acceptor import Acceptor
from broker.net.admission import ConnectionLimits
from broker.net.completion import RequestWait
from broker.server.context import BrokerContext
from broker.server.dispatch import Dispatcher
from broker.server.handler import Handler
from broker.server.handler_entry import HandlerEntry
from broker.server.scheduler import Work, in_task
from broker.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Env, RealDisk, kernel_socket, real_env
from tests.support.running_node import Traced
from tests.support.wire_client import connected

UNENCODABLE = 1 << 20


class ParkedHeartbeats:
    """A service whose Heartbeat responses are completed by the test. `handle` may be replaced."""

    def __init__(self) -> None:
        self.traced = Traced()
        self.parked: list[RequestWait[int]] = []
        self.commits = 0
        self.port = 0
        self.handle = self.park

    def park(self, context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        wait: RequestWait[int] = RequestWait()
        self.parked.append(wait)
        code = yield from wait
        return HeartbeatResponse(error_code=code)

    def commit(self) -> None:
        self.commits += 1

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
    handler = Handler(HeartbeatRequest, lambda context, request: service.handle(context, request))
    dispatcher = Dispatcher(services, [HandlerEntry("Heartbeat", lambda: handler)], nursery, commit=service.commit)
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


async def test_next_request_is_served_while_a_handler_waits_for_a_completion(heartbeats: ParkedHeartbeats) -> None:
    async with connected(heartbeats.port) as client:
        await client.send(HeartbeatRequest(), 4)
        await client.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(2)
        heartbeats.complete(1, 27)
        heartbeats.complete(0, 25)
        assert [(await client.receive()).error_code for _ in range(2)] == [25, 27], "replies keep their order"


async def test_next_request_waits_while_a_handler_waits_for_a_coroutine(heartbeats: ParkedHeartbeats) -> None:
    may_return = trio.Event()
    began: list[str] = []

    async def wait(request: HeartbeatRequest) -> int:
        await may_return.wait()
        return 27

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        began.append(request.group_id)
        code = yield from in_task(wait(request))
        return HeartbeatResponse(error_code=code)

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client, connected(heartbeats.port) as other:
        await client.send(HeartbeatRequest(group_id="first"), 4)
        await client.send(HeartbeatRequest(group_id="second"), 4)
        await other.send(HeartbeatRequest(group_id="other"), 4)
        with trio.fail_after(20):
            while "other" not in began:
                await trio.sleep(0.01)
        assert "second" not in began
        may_return.set()
        assert [(await client.receive()).error_code for _ in range(2)] == [27, 27]


async def test_next_request_waits_while_a_handler_waits_after_a_step(heartbeats: ParkedHeartbeats) -> None:
    """It decides in portions, and the next request must not see some of them only."""

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        yield None
        return (yield from heartbeats.park(context, request))

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client, connected(heartbeats.port) as other:
        await client.pipeline((HeartbeatRequest(), 4), (HeartbeatRequest(), 4))
        await heartbeats.until_parked(1)
        await other.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(2)
        heartbeats.complete(0, 25)
        assert (await client.receive()).error_code == 25
        await heartbeats.until_parked(3)
        heartbeats.complete(2, 27)
        assert (await client.receive()).error_code == 27


async def test_handler_that_waits_after_a_step_goes_on_if_its_connection_closes(heartbeats: ParkedHeartbeats) -> None:
    """Kafka carries out each request that it has received, and not only the first portion of it."""
    ended = trio.Event()

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        yield None
        response = yield from heartbeats.park(context, request)
        ended.set()
        return response

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client:
        await client.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(1)
    async with connected(heartbeats.port) as other:  # accepted after the node has seen the other one close
        await other.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(2)
    heartbeats.complete(0, 25)
    with trio.fail_after(20):
        await ended.wait()
    assert not heartbeats.traced.of("handler_failed")


async def test_handler_gets_the_errors_of_its_coroutine(heartbeats: ParkedHeartbeats) -> None:
    async def fail() -> int:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        try:
            code: int = yield from in_task(fail())
        except KafkaError as error:
            code = error.code
        return HeartbeatResponse(error_code=code)

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client:
        assert (await client.call(HeartbeatRequest(), 4)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not heartbeats.traced.of("handler_failed")


async def test_other_tasks_run_between_coroutines_that_end_at_once(
    heartbeats: ParkedHeartbeats, nursery: trio.Nursery
) -> None:
    """A request that described 10,000 groups, each by a coroutine that had nothing to wait for, blocked all others."""
    count, turns_at_least = 1_000, 20
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def nothing() -> None:
        """Returns at once."""

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        yield from in_task(nothing())  # the handler runs in a task now
        before = turns
        for _ in range(count):
            yield from in_task(nothing())
        return HeartbeatResponse(error_code=turns - before)

    heartbeats.handle = handle
    nursery.start_soon(take_turns)
    async with connected(heartbeats.port) as client:
        assert (await client.call(HeartbeatRequest(), 4)).error_code >= turns_at_least


async def test_handler_is_closed_with_its_connection(heartbeats: ParkedHeartbeats) -> None:
    closed = trio.Event()

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        try:
            return (yield from heartbeats.park(context, request))
        finally:
            closed.set()

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client:
        await client.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(1)
        assert not closed.is_set()
    with trio.fail_after(20):
        await closed.wait()
    assert heartbeats.parked[0].done


async def test_handler_may_wait_for_one_thing_after_the_other(heartbeats: ParkedHeartbeats) -> None:
    async def one() -> int:
        return 1

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        total = 0
        for _ in range(2):
            total += (yield from heartbeats.park(context, request)).error_code
            for _ in range(1000):
                yield None
            total += yield from in_task(one())
        return HeartbeatResponse(error_code=total)

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client:
        await client.send(HeartbeatRequest(), 4)
        for index, code in enumerate((20, 5)):
            await heartbeats.until_parked(index + 1)
            heartbeats.complete(index, code)
        assert (await client.receive()).error_code == 27


async def test_batches_staged_outside_of_turns_are_committed_before_the_handler_waits(
    heartbeats: ParkedHeartbeats,
) -> None:
    async def nothing() -> None:
        """Returns at once."""

    def handle(context: BrokerContext, request: HeartbeatRequest) -> Work[HeartbeatResponse]:
        yield from in_task(nothing())
        heartbeats.commits = 0  # what it stages now needs a commit
        return (yield from heartbeats.park(context, request))

    heartbeats.handle = handle
    async with connected(heartbeats.port) as client:
        await client.send(HeartbeatRequest(), 4)
        await heartbeats.until_parked(1)
        assert heartbeats.commits == 1
        heartbeats.complete(0, 27)
        assert (await client.receive()).error_code == 27
