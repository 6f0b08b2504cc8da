"""The channel to the active controller, during leader changes and lost connections."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from broker.client import encode_request
from broker.controller_client.channel import LocalController
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from broker.wire.api.envelope import EnvelopeRequest, EnvelopeResponse
from broker.wire.codec import encode
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.header import encode_response_header, parse_request_header
from tests.support.controller_channel_harness import ME, ControllerChannelHarness, controller_channel_harness
from tests.support.scripted_node import Answer, scripted_node

ASK = AllocateProducerIdsRequest(broker_id=ME)
# The longest time that a leader change may add to a waiting request.
PROMPT_S = 0.1


class Own(LocalController):
    """This node's own controller, active as long as the test says so."""

    is_active = False

    def __init__(self, serve: Callable[[bytes], bytes]) -> None:
        self.serve = serve
        self.deposed = trio.Event()
        self.executed: list[tuple[bytes, str, str]] = []

    async def execute(self, payload: bytes, *, principal: str, client_host: str, is_own: bool = False) -> bytes:
        self.executed.append((payload, principal, client_host))
        return self.serve(payload)


def own_answer(payload: bytes) -> bytes:
    _, _, correlation_id, _, _ = parse_request_header(payload)
    body = b"".join(map(bytes, encode(heartbeat_accepted(0), 0)))
    return encode_response_header(67, 0, correlation_id) + body


def heartbeat_accepted(node: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=node)


def refused(code: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)


async def ask(harness: ControllerChannelHarness, timeout_ms: float = 5_000) -> int:
    """Send a request. Returns the id of the node that responded."""
    response = await harness.channel.call(ASK, 0, timeout_ms=timeout_ms)
    assert response.error_code == 0
    node: int = response.producer_id_start
    return node


def answers(node: int) -> Callable[[object], Answer]:
    return lambda request: heartbeat_accepted(node)


def silent(request: object) -> None:
    pass


class Asking:
    """A request that waits in a separate task."""

    def __init__(self, nursery: trio.Nursery, each: ControllerChannelHarness) -> None:
        self.node: int | None = None
        self._done = trio.Event()
        nursery.start_soon(self._ask, each)

    async def _ask(self, each: ControllerChannelHarness) -> None:
        self.node = await ask(each)
        self._done.set()

    async def answered_by(self, within_s: float = PROMPT_S) -> int | None:
        with trio.fail_after(within_s):
            await self._done.wait()
        return self.node


async def test_requests_wait_for_a_leader(jumping_clock: MockClock) -> None:
    async with scripted_node(answers(1)) as node, controller_channel_harness() as each, trio.open_nursery() as nursery:
        asking = Asking(nursery, each)
        await trio.sleep(0.05)
        each.announce(None, 1)
        each.announce(1, 1, node.address)
        assert await asking.answered_by() == 1


async def test_request_in_flight_is_retried_at_the_next_leader(jumping_clock: MockClock) -> None:
    async with (
        scripted_node(silent) as first,
        scripted_node(answers(2)) as second,
        controller_channel_harness() as each,
        trio.open_nursery() as nursery,
    ):
        each.announce(1, 1, first.address)
        asking = Asking(nursery, each)
        await first.wait_for(1)
        first.drop_connections()
        await trio.sleep(0.05)  # the next leader is not known yet, so the channel keeps trying the dead one
        each.announce(None, 2)
        each.announce(2, 2, second.address)
        assert await asking.answered_by() == 2


async def test_silent_leader_is_abandoned_when_another_leads(jumping_clock: MockClock) -> None:
    async with (
        scripted_node(silent) as first,
        scripted_node(answers(2)) as second,
        controller_channel_harness() as each,
        trio.open_nursery() as nursery,
    ):
        each.announce(1, 1, first.address)
        asking = Asking(nursery, each)
        await first.wait_for(1)
        each.announce(2, 2, second.address)
        assert await asking.answered_by() == 2
        await first.wait_for_end()
        assert first.ends == ["reset"], "what it has not read yet must not run later"


async def test_leader_of_a_new_epoch_gets_a_new_connection(jumping_clock: MockClock) -> None:
    async with scripted_node(silent) as node, controller_channel_harness() as each, trio.open_nursery() as nursery:
        each.announce(1, 1, node.address)
        asking = Asking(nursery, each)
        await node.wait_for(1)
        node.script = answers(1)
        each.announce(1, 2, node.address)
        assert await asking.answered_by() == 1
        assert node.connections == 2


async def test_last_leader_gets_requests_while_no_leader_is_known(jumping_clock: MockClock) -> None:
    """A replica that looks for another leader may find that the previous one still leads."""
    async with scripted_node(answers(1)) as node, controller_channel_harness() as each:
        each.announce(1, 1, node.address)
        await ask(each)
        each.announce(None, 1)
        assert await ask(each) == 1
        each.announce(1, 1, node.address)
        assert await ask(each) == 1
        assert node.connections == 1


async def test_inactive_leader_is_asked_again(jumping_clock: MockClock) -> None:
    refusals = [refused(ErrorCode.NOT_CONTROLLER)] * 3
    async with (
        scripted_node(lambda request: refusals.pop() if refusals else heartbeat_accepted(1)) as node,
        controller_channel_harness() as each,
        trio.open_nursery() as nursery,
    ):
        each.announce(1, 1, node.address)
        assert await Asking(nursery, each).answered_by() == 1
        assert node.connections == 1


async def test_pauses_grow_while_a_leader_does_not_become_active(jumping_clock: MockClock) -> None:
    async with (
        scripted_node(lambda request: refused(ErrorCode.NOT_CONTROLLER)) as node,
        controller_channel_harness() as each,
    ):
        each.announce(1, 1, node.address)
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await ask(each, timeout_ms=500)
        assert 4 <= len(node.requests) <= 12


async def test_other_errors_are_raised_to_the_caller(jumping_clock: MockClock) -> None:
    async with (
        scripted_node(lambda request: refused(ErrorCode.STALE_BROKER_EPOCH)) as node,
        controller_channel_harness() as each,
    ):
        each.announce(1, 1, node.address)
        response = await each.channel.call(ASK, 0, timeout_ms=1_000)
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("is_known", [False, True])
async def test_request_times_out(jumping_clock: MockClock, is_known: bool) -> None:
    async with scripted_node(silent) as node, controller_channel_harness() as each:
        if is_known:
            each.announce(1, 1, node.address)
        started = trio.current_time()
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await ask(each, timeout_ms=100)
        assert 0.1 <= trio.current_time() - started < 0.1 + PROMPT_S


async def test_connection_without_responses_is_replaced(jumping_clock: MockClock) -> None:
    async with scripted_node(silent) as node, controller_channel_harness(request_timeout_ms=50) as each:
        each.announce(1, 1, node.address)
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await ask(each, timeout_ms=200)
        node.script = answers(1)
        assert await ask(each) == 1
        assert 2 <= node.connections <= 6


async def test_no_request_is_sent_before_the_first_response_of_a_connection(jumping_clock: MockClock) -> None:
    """The controller might execute them: heartbeats on successive connections would keep the broker unfenced."""
    async with scripted_node(answers(1)) as node, controller_channel_harness(request_timeout_ms=50) as each:
        node.is_heard = False
        each.announce(1, 1, node.address)
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await ask(each, timeout_ms=500)
        assert node.connections > 2
        assert not node.requests
        node.is_heard = True
        assert await ask(each) == 1


async def test_no_request_is_sent_after_a_connection_without_responses(jumping_clock: MockClock) -> None:
    async with scripted_node(answers(1)) as node, controller_channel_harness(request_timeout_ms=50) as each:
        each.announce(1, 1, node.address)
        await ask(each)
        node.is_heard = False
        for _ in range(5):
            with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
                await ask(each, timeout_ms=100)
        assert len(node.requests) == 2
        assert node.connections > 2


async def test_malformed_response_is_followed_by_a_pause(jumping_clock: MockClock) -> None:
    async with scripted_node(lambda request: (4).to_bytes(4) + bytes(4)) as node, controller_channel_harness() as each:
        each.announce(1, 1, node.address)
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await ask(each, timeout_ms=200)
        assert len(node.requests) < 12


async def test_address_may_become_known_later(jumping_clock: MockClock) -> None:
    async with scripted_node(answers(1)) as node, controller_channel_harness() as each, trio.open_nursery() as nursery:
        each.announce(1, 1, None)
        asking = Asking(nursery, each)
        await trio.sleep(0.02)
        each.quorum.leader_address = node.address
        assert await asking.answered_by() == 1


async def test_reached_listener_is_called_for_each_connection(jumping_clock: MockClock) -> None:
    local = Own(own_answer)
    async with scripted_node(answers(1)) as node, controller_channel_harness(local=local) as each:
        reached: list[int] = []
        each.channel.add_reached_listener(lambda: reached.append(1))
        each.announce(1, 1, node.address)
        await ask(each)
        assert len(reached) == 1
        node.drop_connections()
        await trio.sleep(0.02)
        await ask(each)
        assert len(reached) == 2
        local.is_active = True
        each.announce(ME, 2)
        assert len(reached) == 3


async def test_local_controller_is_called_in_process(jumping_clock: MockClock) -> None:
    local = Own(own_answer)
    async with controller_channel_harness(local=local) as each:
        each.announce(ME, 1, "127.0.0.1:1")
        local.is_active = True
        each.announce(ME, 1, "127.0.0.1:1")
        assert await ask(each) == 0
        request = encode_request(ASK, 0, "client")
        assert await each.channel.forward(request, principal="User:a", client_host="::1", timeout_ms=1_000)
        assert local.executed[1] == (request, "User:a", "::1")
        assert not each.traced.of("controller_connection_lost"), "nobody connects to itself"


async def test_request_moves_to_the_next_controller_when_the_local_one_is_deposed(jumping_clock: MockClock) -> None:
    local = Own(own_answer)

    def depose(payload: bytes) -> bytes:
        local.is_active = False
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    local.serve = depose
    async with (
        scripted_node(answers(2)) as node,
        controller_channel_harness(local=local) as each,
        trio.open_nursery() as nursery,
    ):
        local.is_active = True
        each.announce(ME, 1)
        asking = Asking(nursery, each)
        await trio.sleep(0.02)
        assert len(local.executed) == 1
        each.announce(2, 2, node.address)
        assert await asking.answered_by() == 2


async def test_waiting_request_is_served_by_the_new_local_controller(jumping_clock: MockClock) -> None:
    local = Own(own_answer)
    async with (
        scripted_node(silent) as node,
        controller_channel_harness(local=local) as each,
        trio.open_nursery() as nursery,
    ):
        each.announce(1, 1, node.address)
        asking = Asking(nursery, each)
        await node.wait_for(1)
        each.announce(None, 2)
        local.is_active = True
        each.announce(ME, 2)
        assert await asking.answered_by() == 0
        await node.wait_for_end()


# Forwarding (KIP-590)


async def test_client_request_is_forwarded_unchanged_with_its_principal(jumping_clock: MockClock) -> None:
    request = bytes(range(40))
    answer = request[4:8] + b"answer"

    async with (
        scripted_node(lambda request: EnvelopeResponse(response_data=answer)) as node,
        controller_channel_harness() as each,
    ):
        each.announce(1, 1, node.address)
        for host, packed in (("10.1.2.3", bytes((10, 1, 2, 3))), ("::1", bytes(15) + b"\1")):
            got = await each.channel.forward(request, principal="User:ann", client_host=host, timeout_ms=1_000)
            assert got == answer
            envelope: EnvelopeRequest = node.requests[-1]
            assert envelope.request_data == request
            assert envelope.request_principal == b"User:ann"
            assert envelope.client_host_address == packed


async def test_envelope_to_a_deposed_controller_is_sent_again(jumping_clock: MockClock) -> None:
    refusals = [EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)]
    accepted = EnvelopeResponse(response_data=b"answer")
    async with (
        scripted_node(lambda request: refusals.pop() if refusals else accepted) as node,
        controller_channel_harness() as each,
    ):
        each.announce(1, 1, node.address)
        got = await each.channel.forward(bytes(10), principal="User:a", client_host="::1", timeout_ms=1_000)
        assert got == b"answer"


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),  # the client is told that it is the servers' fault
    ],
)
async def test_envelope_that_the_controller_rejects_raises(
    jumping_clock: MockClock, code: ErrorCode, raised: ErrorCode
) -> None:
    async with (
        scripted_node(lambda request: EnvelopeResponse(error_code=code)) as node,
        controller_channel_harness() as each,
    ):
        each.announce(1, 1, node.address)
        with pytest.raises(KafkaError) as refusal:
            await each.channel.forward(bytes(10), principal="User:a", client_host="::1", timeout_ms=1_000)
        assert refusal.value.code is raised


async def test_how_fast_requests_follow_the_leader(figure: Callable[[str], None]) -> None:
    """The time from the announcement of a leader to the response to a waiting request."""
    times = []
    async with scripted_node(silent) as dead, scripted_node(answers(2)) as living, controller_channel_harness() as each:
        for epoch in range(1, 41, 2):
            each.announce(1, epoch, dead.address)
            async with trio.open_nursery() as nursery:
                asking = Asking(nursery, each)
                await dead.wait_for(epoch // 2 + 1)
                dead.drop_connections()
                await trio.sleep(0.01)
                started = trio.current_time()
                each.announce(2, epoch + 1, living.address)
                await asking.answered_by(within_s=5)
                times.append(trio.current_time() - started)
    times.sort()
    figure(f"median {times[10] * 1e3:.1f} ms, worst {times[-1] * 1e3:.1f} ms")
