"""The times of requests: each part is attributed as documented, and skipped turns are accounted for."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from broker.net.connection import Connection, Sender
from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.reply import PendingReply, Reply
from broker.net.turn_timer import RequestTime, TurnTimer

FETCH = b"\0\0\0\x04\0\x01\0\x0a"
CLOCK_STEP_S = 0.001


class Transport:
    """Sends at once; each send takes a millisecond."""

    def __init__(self, connection: Connection, clock: trio.testing.MockClock) -> None:
        self.connection = connection
        self.clock = clock
        self.sent: list[bytes] = []

    def flush(self) -> bool:
        self.clock.jump(CLOCK_STEP_S)
        self.sent += [bytes(part) for part in self.connection.outgoing if isinstance(part, bytes)]
        self.connection.outgoing.clear()
        self.connection.outgoing_size = 0
        return True

    def shut(self) -> None: ...


class Service:
    """Answers requests with `reply`, after `serve_s`."""

    def __init__(self, clock: trio.testing.MockClock, reply: Callable[[Connection], Reply], serve_s: float) -> None:
        self._clock = clock
        self._reply = reply
        self._serve_s = serve_s

    def open_session(self, connection: Connection) -> object:
        return "session"

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        self._clock.jump(self._serve_s)
        return self._reply(connection)

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        """Anyone may send any request."""
        return Sender.ANYONE

    def check_size(self, connection: Connection, api_key: int, size: int) -> None: ...


class World:
    """A connection whose turns are timed on a clock that only moves by what they do. A commit takes 3 ms."""

    def __init__(
        self,
        clock: trio.testing.MockClock,
        reply: Callable[[Connection], Reply],
        serve_s: float = 2 * CLOCK_STEP_S,
    ) -> None:
        self.clock = clock
        self.times: list[RequestTime] = []
        self.timer = TurnTimer(self.times.append)
        self.turns = ConnectionScheduler(self._commit, self.timer)
        self.connection = Connection(
            Service(clock, reply, serve_s),
            self.turns.run,
            lambda _: None,
            request_size_max=1000,
            peer_host="",
            listener="",
        )
        self.connection.transport = Transport(self.connection, clock)

    def _commit(self) -> bool:
        self.clock.jump(3 * CLOCK_STEP_S)
        return True

    def request(self, count: int = 1) -> None:
        data = FETCH * count
        self.connection.receive_space()[: len(data)] = data
        self.connection.received(len(data))
        self.turns.run(self.connection)


def milliseconds(*seconds: float) -> list[int]:
    return [round(each * 1000) for each in seconds]


async def test_requests_of_a_turn_share_its_commit_and_wait_for_each_other(mock_clock: trio.testing.MockClock) -> None:
    world = World(mock_clock, lambda _: b"reply")
    world.request(count=2)
    first, second = world.times
    assert (first.api_key, first.weight, first.session) == (1, 1, "session")
    parts = [
        milliseconds(time.queue_s, time.local_s, time.remote_s, time.response_queue_s, time.send_s, time.total_s)
        for time in (first, second)
    ]
    assert parts == [[0, 5, 0, 2, 1, 8], [2, 5, 0, 0, 1, 8]]


async def test_time_until_a_pending_reply_is_completed_is_remote(mock_clock: trio.testing.MockClock) -> None:
    pending: list[PendingReply] = []

    def park(connection: Connection) -> Reply:
        pending.append(PendingReply(connection))
        return pending[-1]

    world = World(mock_clock, park)
    world.request()
    assert world.times == []
    mock_clock.jump(0.5)
    pending[0].complete(b"reply")
    (time,) = world.times
    assert milliseconds(time.local_s)[0] == 2
    assert milliseconds(time.remote_s)[0] >= 500


async def test_reply_that_takes_the_place_of_an_exclusive_one_ends_its_time(mock_clock: trio.testing.MockClock) -> None:
    pending: list[PendingReply] = []

    def park(connection: Connection) -> Reply:
        pending.append(PendingReply(connection, is_exclusive=True))
        return pending[-1]

    world = World(mock_clock, park)
    world.request()
    again = PendingReply(world.connection, is_exclusive=True)
    world.connection.resume(pending[0], lambda: again)
    assert world.times == []
    mock_clock.jump(0.25)
    world.connection.resume(again, lambda: b"reply")
    (time,) = world.times
    assert 250 <= milliseconds(time.remote_s)[0] < 300


async def test_request_of_a_closed_connection_has_no_time(mock_clock: trio.testing.MockClock) -> None:
    world = World(mock_clock, lambda connection: PendingReply(connection))
    world.request()
    world.connection.close("gone")
    world.turns.run_all()
    assert world.times == []


@pytest.mark.parametrize("requests", [1, 10])
async def test_measured_requests_stand_for_all(mock_clock: trio.testing.MockClock, requests: int) -> None:
    world = World(mock_clock, lambda _: b"reply", serve_s=0.0)
    began_s = mock_clock.current_time()
    for _ in range(10_000):
        world.request(requests)
    elapsed_s = mock_clock.current_time() - began_s
    assert sum(time.weight for time in world.times) == pytest.approx(requests * 10_000, rel=0.05)
    assert len(world.times) <= 300 * (elapsed_s + 1) + requests * 100


async def test_requests_after_a_load_are_measured(autojump_clock: trio.testing.MockClock) -> None:
    world = World(autojump_clock, lambda _: b"reply", serve_s=0.0)
    turns = 200
    for _ in range(turns):
        world.request(count=10)
    while not world.timer.turns_to_skip:
        world.request(count=10)
        turns += 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.timer.run)
        await trio.sleep(30)
        assert not world.timer.turns_to_skip
        world.request()
        nursery.cancel_scope.cancel()
    assert sum(time.weight for time in world.times) == pytest.approx(10 * turns, rel=0.1)
